#!/usr/bin/env python3
"""Makes this folder's pictures and expected.json (needs Pillow with WebP).

Each picture shows the same 13 x 9 pattern in one kind of file; expected.json lists the size and the
CRC-32 of the RGB bytes that Pillow's `convert("RGB")` gives, alpha cut off. Broken files are made by
the tests from these.
"""

import json
import struct
import sys
import zlib
from pathlib import Path

from PIL import Image

WIDTH, HEIGHT = 13, 9


def pattern():
    image = Image.new("RGB", (WIDTH, HEIGHT))
    image.putdata([((x * 19 + y) % 256, (y * 27 + x * 3) % 256, (x * y * 5 + 40) % 256)
                   for y in range(HEIGHT) for x in range(WIDTH)])
    return image


def alpha():
    mask = Image.new("L", (WIDTH, HEIGHT))
    mask.putdata([(x * 20) % 256 for y in range(HEIGHT) for x in range(WIDTH)])
    return mask


def with_alpha():
    image = pattern().convert("RGBA")
    image.putalpha(alpha())
    return image


def png_chunk(kind, data):
    return (struct.pack(">I", len(data)) + kind + data +
            struct.pack(">I", zlib.crc32(kind + data)))


def interlaced_png(image):
    """Adam7, which Pillow reads and does not write."""
    passes = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
              (0, 1, 1, 2))
    pixels = image.load()
    raw = b""
    for x0, y0, dx, dy in passes:
        for y in range(y0, HEIGHT, dy):
            row = b"".join(bytes(pixels[x, y]) for x in range(x0, WIDTH, dx))
            if row:
                raw += b"\0" + row
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 1)
    return (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) +
            png_chunk(b"IDAT", zlib.compress(raw)) + png_chunk(b"IEND", b""))


def deep_png(image):
    """16 bits a channel: the high byte is the pattern's, the low byte must not matter."""
    raw = b""
    for y in range(HEIGHT):
        raw += b"\0" + b"".join(bytes((v, 255 - v)) for x in range(WIDTH)
                                for v in image.getpixel((x, y)))
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 16, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) +
            png_chunk(b"IDAT", zlib.compress(raw)) + png_chunk(b"IEND", b""))


def bmp(bits, rows, compression=0, masks=b"", palette=b"", top_down=False, header_bytes=40):
    stride = (WIDTH * bits + 31) // 32 * 4
    order = rows if top_down else rows[::-1]
    data = b"".join(row.ljust(stride, b"\0") for row in order)
    offset = 14 + header_bytes + len(masks) + len(palette)
    if header_bytes == 12:
        info = struct.pack("<IHHHH", 12, WIDTH, HEIGHT, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", 40, WIDTH, -HEIGHT if top_down else HEIGHT, 1, bits,
                           compression, len(data), 2835, 2835, len(palette) // 4, 0)
    return (b"BM" + struct.pack("<IHHI", offset + len(data), 0, 0, offset) + info + masks + palette +
            data)


def bmp_files(image):
    pixels = image.load()
    rows24 = [b"".join(bytes(pixels[x, y][::-1]) for x in range(WIDTH)) for y in range(HEIGHT)]
    rows32 = [b"".join(bytes(pixels[x, y][::-1]) + b"\x07" for x in range(WIDTH))
              for y in range(HEIGHT)]
    indexed = image.quantize(16)
    colors = indexed.getpalette()[:48]
    palette4 = b"".join(bytes(colors[3 * i:3 * i + 3][::-1]) + b"\0" for i in range(16))
    values = [[indexed.getpixel((x, y)) for x in range(WIDTH)] for y in range(HEIGHT)]
    rows8 = [bytes(row) for row in values]
    rows4 = [bytes((row[i] << 4) | (row[i + 1] if i + 1 < WIDTH else 0)
                   for i in range(0, WIDTH, 2)) for row in values]
    bits = [[(x * y) % 2 for x in range(WIDTH)] for y in range(HEIGHT)]
    rows1 = [int("".join(map(str, row)).ljust(16, "0"), 2).to_bytes(2, "big") for row in bits]
    # 5-6-5 with values whose expansion to 8 bits every reader agrees on: none or all bits set.
    full = (0x0000, 0xF800, 0x07E0, 0x001F, 0xFFE0, 0xFFFF)
    rows16 = [b"".join(struct.pack("<H", full[(x + y) % 6]) for x in range(WIDTH))
              for y in range(HEIGHT)]
    os2_palette = b"".join(palette4[4 * i:4 * i + 3] for i in range(16))
    return {
        "bits1.bmp": bmp(1, rows1, palette=b"\x10\x20\x30\0\xf0\xe0\xd0\0"),
        "bits4.bmp": bmp(4, rows4, palette=palette4),
        "bits8.bmp": bmp(8, rows8, palette=palette4),
        "bits16.bmp": bmp(16, rows16, 3, struct.pack("<III", 0xF800, 0x07E0, 0x001F)),
        "bits24.bmp": bmp(24, rows24),
        "bits24_top_down.bmp": bmp(24, rows24, top_down=True),
        "bits32.bmp": bmp(32, rows32),
        "os2.bmp": bmp(8, rows8, palette=os2_palette.ljust(768, b"\0"), header_bytes=12),
    }


def main():
    out = Path(__file__).parent
    image = pattern()
    image.save(out / "rgb.png")
    with_alpha().save(out / "rgba.png")
    image.convert("L").save(out / "gray.png")
    image.convert("LA").save(out / "gray_alpha.png")
    image.convert("L").point(lambda v: 255 * (v > 127)).convert("1").save(out / "bits1.png")
    image.quantize(16).save(out / "palette.png")
    image.quantize(16).save(out / "palette_transparent.png", transparency=3)
    (out / "interlaced.png").write_bytes(interlaced_png(image))
    (out / "deep.png").write_bytes(deep_png(image))
    image.save(out / "rgb.jpg", quality=92)
    image.save(out / "progressive.jpg", quality=92, progressive=True)
    image.convert("L").save(out / "gray.jpg", quality=92)
    image.convert("CMYK").save(out / "cmyk.jpg", quality=92)
    image.save(out / "lossless.webp", lossless=True)
    with_alpha().save(out / "lossless_alpha.webp", lossless=True, exact=True)
    image.save(out / "lossy.webp", quality=80)
    image.save(out / "animated.webp", save_all=True, append_images=[image.rotate(180)])
    image.save(out / "unsupported.gif")
    image.save(out / "unsupported.tif")
    for name, data in bmp_files(image).items():
        (out / name).write_bytes(data)

    expected = {}
    for path in sorted(out.iterdir()):
        if path.suffix not in (".png", ".jpg", ".webp", ".bmp") or path.name == "animated.webp":
            continue
        decoded = Image.open(path)
        if decoded.mode == "RGBA":
            decoded = Image.merge("RGB", decoded.split()[:3])
        decoded = decoded.convert("RGB")
        expected[path.name] = {"width": decoded.width, "height": decoded.height,
                               "crc32": zlib.crc32(decoded.tobytes()),
                               "sums": [sum(decoded.getchannel(c).tobytes()) for c in range(3)]}
    (out / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
