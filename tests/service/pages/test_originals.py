"""Originals: shown small, and never from outside their folder."""

from PIL import Image

from shardgraph.service.pages.originals import Originals


def test_an_original_is_shown_small_and_never_from_outside_of_its_folder(tmp_path):
    folder = tmp_path / "originals"
    (folder / "sub").mkdir(parents=True)
    Image.new("L", (900, 600), 200).save(folder / "sub" / "a.png")
    (folder / "b.txt").write_text("dear all")
    (folder / "c.png").write_text("no picture")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    found = Originals(folder).show(
        ["sub/a.png", "sub/a", "b", "c.png", "../secret.txt", "/etc/passwd", "link", "x\0", "no"]
    )
    assert [(one.sample, bool(one.image), one.text) for one in found] == [
        ("sub/a.png", True, ""),
        ("sub/a", True, ""),
        ("b", False, "dear all"),
    ]
    assert Originals().show(["b"]) == []


def test_a_picture_that_pillow_chokes_on_is_not_shown(tmp_path):
    path = tmp_path / "a.png"
    Image.effect_noise((300, 300), 80).save(path)
    raw = bytearray(path.read_bytes())
    second = raw.index(b"IDAT", raw.index(b"IDAT") + 4) if raw.count(b"IDAT") > 1 else raw.index(b"IDAT")
    raw[second : second + 4] = b"\x00\x01\x02\x03"
    path.write_bytes(raw)
    assert Originals(tmp_path).show(["a"]) == []
