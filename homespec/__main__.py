from homespec.cli import main

main()
