"""Reading a description from a file: bounded, and every refusal says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.errors import UsageError
from headgate.network.text_file import TextFileError, TextFileKind, read_text_file

NOTES = TextFileKind("notes", (".txt", ".md"), 10, "write less")


def file_with(directory: Path, content: bytes) -> Path:
    path = directory / "notes.txt"
    path.write_bytes(content)
    return path


def test_a_byte_order_mark_is_not_part_of_the_text(tmp_path: Path) -> None:
    assert read_text_file(file_with(tmp_path, b"\xef\xbb\xbfhello"), NOTES) == "hello"


@pytest.mark.parametrize("content", [b"x" * 11, b"\xef\xbb\xbf" + b"x" * 8, "é".encode() * 6])
def test_a_file_above_the_limit_is_refused_and_never_cut(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(TextFileError, match="larger than 10 bytes; write less"):
        read_text_file(file_with(tmp_path, content), NOTES)


def test_what_is_not_text_gets_its_line(tmp_path: Path) -> None:
    with pytest.raises(TextFileError, match="not UTF-8") as error:
        read_text_file(file_with(tmp_path, b"a\nb\n\xff"), NOTES)
    assert error.value.line == 3


def test_a_missing_file_gets_the_nearest_name_or_the_endings(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"it should end in \.txt or \.md"):
        read_text_file(tmp_path / "note.txt", NOTES)
    file_with(tmp_path, b"")
    with pytest.raises(UsageError, match=r"did you mean 'notes.txt'\?"):
        read_text_file(tmp_path / "note.txt", NOTES)


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the notes"):
        read_text_file(tmp_path, NOTES)
