"""A list with a cursor that draws only the rows in sight, however long it is."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import ClassVar, Generic, TypeVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

from homespec.tui.line import Line, line

T = TypeVar("T")

CURSOR = "▸"


class Rows(ScrollView, Generic[T], can_focus=True):
    """One line per item; the cursor stays on its item while others come and go, and has a sign of its own.

    `draw` is given an item and the width behind the sign, `key` tells items apart. With `at_end` the cursor follows the
    last item as long as it stands there, in sight.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("home,g", "go(0)", "first", show=False),
        Binding("end,G", "go(-1)", "last", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"rows--cursor"}

    cursor: reactive[int] = reactive(0, repaint=False)

    class Moved(Message):
        """The cursor stands on another item, or its item has changed."""

    def __init__(
        self, draw: Callable[[T, int], Line], key: Callable[[T], Hashable], *, name: str, at_end: bool = False
    ) -> None:
        super().__init__(id=name)
        self._draw = draw
        self._key = key
        self._at_end = at_end
        self._items: Sequence[T] = ()

    @property
    def selected(self) -> T | None:
        """The item under the cursor."""
        return self._items[self.cursor] if self.cursor < len(self._items) else None

    def show(self, items: Sequence[T]) -> None:
        """Draw these items from now on."""
        before, last = self.selected, len(self._items) - 1
        follows = self._at_end and (before is None or (self.cursor == last and self.is_vertical_scroll_end))
        self._items = items
        self.virtual_size = Size(self.size.width, len(items))
        self.cursor = len(items) - 1 if follows else self._place_of(before)
        if follows:
            self.call_after_refresh(self._reveal)
        self.post_message(self.Moved())
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width, index = self.size.width, y + self.scroll_offset.y
        if index >= len(self._items):
            return Strip.blank(width, self.rich_style)
        at_cursor = index == self.cursor
        text = line(CURSOR if at_cursor else " ", self._draw(self._items[index], max(width - 1, 0)))
        style = self.get_visual_style("rows--cursor") if at_cursor and self.has_focus else self.visual_style
        return Visual.to_strips(self, text.truncate(width, ellipsis=True), width, 1, style, pad=True)[0]

    def validate_cursor(self, cursor: int) -> int:
        return max(min(cursor, len(self._items) - 1), 0)

    def watch_cursor(self) -> None:
        self._reveal()
        self.post_message(self.Moved())
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None:
            self.cursor = offset.y + self.scroll_offset.y

    def on_resize(self) -> None:
        self.virtual_size = Size(self.size.width, len(self._items))
        self._reveal()

    def action_move(self, step: int) -> None:
        self.cursor += step

    def action_page(self, pages: int) -> None:
        self.cursor += pages * max(self.size.height - 1, 1)

    def action_go(self, index: int) -> None:
        self.cursor = index if index >= 0 else len(self._items) + index

    def _place_of(self, item: T | None) -> int:
        """Where an item is now; its old place when it is gone."""
        if item is not None:
            wanted = self._key(item)
            for index, each in enumerate(self._items):
                if self._key(each) == wanted:
                    return index
        return self.validate_cursor(self.cursor)

    def _reveal(self) -> None:
        self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False, force=True)
