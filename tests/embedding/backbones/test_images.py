"""Whatever people call an image."""

import io
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from shardgraph.embedding.backbones.images import MAX_PIXELS, decode
from shardgraph.embedding.backbones.vision import Framing
from shardgraph.errors import InputError
from tests.embedding.backbones.payloads import encoded, picture

COLOURS = picture(48)


def saved(image: Image.Image, kind: str, **options) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def test_rgb_comes_back_as_it_was():
    assert np.array_equal(np.asarray(decode(encoded(COLOURS))), COLOURS)


def test_grey_and_black_and_white_become_rgb():
    grey = Image.fromarray(COLOURS[..., 0])
    assert np.array_equal(np.asarray(decode(saved(grey, "PNG")))[..., 2], COLOURS[..., 0])
    assert set(np.unique(decode(saved(grey.convert("1"), "PNG")))) == {0, 255}


def test_cmyk_becomes_rgb():
    image = decode(saved(Image.new("CMYK", (40, 30), (0, 255, 255, 0)), "JPEG"))
    assert image.mode == "RGB" and image.size == (40, 30)
    red, green, blue = image.getpixel((5, 5))
    assert red > 200 and green < 60 and blue < 60


def test_sixteen_bits_are_scaled_not_clipped():
    wide = np.array([[0, 128, 129, 257 * 100, 65535]], dtype=np.uint16)
    assert np.asarray(decode(saved(Image.fromarray(wide), "PNG")))[0, :, 0].tolist() == [0, 0, 1, 100, 255]


def test_transparency_shows_white():
    clear = Image.fromarray(np.dstack([COLOURS, np.zeros((48, 48), np.uint8)]))
    assert np.asarray(decode(saved(clear, "PNG"))).min() == 255
    palette = Image.new("P", (8, 8), 3)
    palette.putpalette([10, 20, 30] * 256)
    assert decode(saved(palette, "PNG", transparency=3)).getpixel((0, 0)) == (255, 255, 255)
    assert decode(saved(palette, "PNG")).getpixel((0, 0)) == (10, 20, 30)


def test_exif_rotation_is_undone():
    exif = Image.Exif()
    exif[0x0112] = 6  # rotate by 90 degrees to see it upright
    image = decode(saved(Image.fromarray(COLOURS[:20]), "PNG", exif=exif))
    assert image.size == (20, 48)
    assert np.array_equal(np.asarray(image), np.rot90(COLOURS[:20], -1))


def test_the_first_frame_of_an_animation_counts():
    frames = [Image.new("RGB", (9, 9), colour) for colour in ("red", "blue")]
    for kind in ("GIF", "PNG", "WEBP"):
        data = saved(frames[0], kind, save_all=True, append_images=frames[1:], **_lossless(kind))
        assert decode(data).getpixel((4, 4)) == pytest.approx((255, 0, 0), abs=1)


def _lossless(kind: str) -> dict[str, bool]:
    return {"lossless": True} if kind == "WEBP" else {}


def test_a_large_jpeg_is_decoded_small_and_alike_each_time():
    data = encoded(picture(2300), "JPEG")
    first, second = decode(data), decode(data)
    assert first.size == (1150, 1150), "half, since a quarter would be below 1024"
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF"])
def test_truncated_files_are_refused(kind):
    with pytest.raises(InputError, match="must be readable"):
        decode(encoded(COLOURS, kind)[:-40])


@pytest.mark.parametrize("data", [b"", b"not an image", b"%!PS-Adobe-3.0 EPSF-3.0\n", "text"])
def test_what_is_no_image_is_refused(data):
    with pytest.raises(InputError):
        decode(data)


def test_missing_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="must be readable"):
        decode(tmp_path / "gone.jpg")


def test_floats_are_refused():
    with pytest.raises(InputError, match="got floats"):
        decode(saved(Image.fromarray(np.ones((4, 4), np.float32)), "TIFF"))


@pytest.mark.parametrize("side", [9_500, 20_000, 60_000])
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_decompression_bombs_are_refused_before_they_are_decoded(side):
    with pytest.raises(InputError, match=r"pixels|DecompressionBomb"):
        decode(_bomb(side))
    assert side * side > MAX_PIXELS


def _bomb(side: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("shape", [(1, 1), (1, 400), (400, 1), (3, 1000)])
def test_the_thinnest_image_can_be_framed(shape):
    framing = Framing(32, 32, 0.875, (0.5,) * 3, (0.5,) * 3)
    image = decode(encoded(np.full((*shape, 3), 77, np.uint8)))
    assert np.array_equal(framing.pixels(image), np.full((32, 32, 3), 77, np.uint8))


def test_framing_keeps_the_centre_or_stretches():
    image = Image.fromarray(np.hstack([np.zeros((8, 8, 3), np.uint8), np.full((8, 8, 3), 200, np.uint8)]))
    centred, whole = (Framing(8, 8, fraction, (0,) * 3, (1,) * 3).pixels(image) for fraction in (1.0, None))
    assert np.array_equal(centred, np.asarray(image)[:, 4:12])
    assert whole.shape == (8, 8, 3) and whole[0, 0, 0] == 0 and whole[0, 7, 0] == 200


def test_normalising_gives_the_bits_of_the_formula_and_leaves_channels_last():
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    pixels = torch.arange(256, dtype=torch.uint8).repeat(2, 3, 3).reshape(2, 48, 16, 3)
    found = Framing(48, 16, None, mean, std).normalise(pixels)
    expected = (pixels.float() / 255 - torch.tensor(mean)) / torch.tensor(std)
    assert torch.equal(found, expected.permute(0, 3, 1, 2)) and found.is_contiguous(memory_format=torch.channels_last)
