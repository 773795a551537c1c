#!/usr/bin/env python3
"""Draws the bundled sample image: a street with people, cars, a dog, a bicycle and a bird.

    python3 scripts/draw_sample_image.py server/worker/data/sample.jpg

Needs Pillow; the drawing itself is ours and fixed by the seed, the JPEG's bytes depend on Pillow's
encoder. The build embeds the stored file and never runs this script.
"""

import argparse
import math
import random
import sys

from PIL import Image, ImageDraw, ImageFilter

WIDTH, HEIGHT = 640, 480
SCALE = 2  # drawn larger and reduced: smooth edges without an anti-aliasing painter
SEED = 20240
QUALITY = 90

SKIN = (224, 172, 138)


class Scene:
    """A canvas in final coordinates; shapes are scaled as they are drawn."""

    def __init__(self):
        self.rng = random.Random(SEED)
        self.image = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE))
        self.draw = ImageDraw.Draw(self.image)

    def _scaled(self, points):
        return [tuple(v * SCALE for v in point) for point in points]

    def polygon(self, points, fill):
        self.draw.polygon(self._scaled(points), fill=fill)

    def box(self, x1, y1, x2, y2, fill, radius=0):
        self.draw.rounded_rectangle(
            self._scaled([(x1, y1), (x2, y2)]), radius=radius * SCALE, fill=fill)

    def disc(self, x, y, rx, ry, fill):
        self.draw.ellipse(self._scaled([(x - rx, y - ry), (x + rx, y + ry)]), fill=fill)

    def ring(self, x, y, r, width, fill):
        self.draw.ellipse(
            self._scaled([(x - r, y - r), (x + r, y + r)]), outline=fill, width=int(width * SCALE))

    def line(self, points, width, fill):
        self.draw.line(self._scaled(points), fill=fill, width=int(width * SCALE), joint="curve")
        for x, y in points:
            self.disc(x, y, width / 2, width / 2, fill)

    def gradient(self, y1, y2, top, bottom):
        for y in range(y1 * SCALE, y2 * SCALE):
            t = (y - y1 * SCALE) / ((y2 - y1) * SCALE)
            color = tuple(round(a + (b - a) * t) for a, b in zip(top, bottom))
            self.draw.line([(0, y), (WIDTH * SCALE, y)], fill=color)

    def shade(self, color, spread):
        d = self.rng.randint(-spread, spread)
        return tuple(max(0, min(255, v + d)) for v in color)


def draw_sky(scene):
    scene.gradient(0, 250, (96, 156, 214), (206, 226, 240))
    scene.disc(548, 62, 30, 30, (255, 240, 190))
    for x, y, size in ((120, 60, 34), (330, 44, 26), (452, 96, 22)):
        for k in range(6):
            scene.disc(x + (k - 2.5) * size * 0.55, y + scene.rng.uniform(-6, 6),
                       size * scene.rng.uniform(0.5, 0.8), size * 0.45, (244, 247, 250))


def draw_building(scene, x1, y1, x2, y2, wall):
    scene.box(x1, y1, x2, y2, wall)
    for row in range(int((y2 - y1) / 10)):  # courses of brick
        y = y1 + row * 10
        scene.line([(x1, y), (x2, y)], 0.6, scene.shade(tuple(v - 18 for v in wall), 6))
        for x in range(int(x1) + (row % 2) * 9, int(x2), 18):
            scene.line([(x, y), (x, min(y + 10, y2))], 0.6, tuple(v - 18 for v in wall))
    for y in range(int(y1) + 16, int(y2) - 34, 40):
        for x in range(int(x1) + 14, int(x2) - 24, 34):
            scene.box(x - 2, y - 2, x + 20, y + 26, (226, 222, 212))
            scene.box(x, y, x + 18, y + 24, scene.shade((74, 96, 122), 24))
            scene.polygon([(x, y + 24), (x + 9, y), (x + 14, y), (x + 4, y + 24)], (120, 146, 172))
            scene.line([(x + 9, y), (x + 9, y + 24)], 1.4, (226, 222, 212))


def draw_tree(scene, x, ground, height):
    scene.polygon([(x - 7, ground), (x - 4, ground - height * 0.6), (x + 4, ground - height * 0.6),
                   (x + 7, ground)], (96, 70, 48))
    for _ in range(220):
        angle, r = scene.rng.uniform(0, 2 * math.pi), math.sqrt(scene.rng.random())
        scene.disc(x + math.cos(angle) * r * height * 0.34,
                   ground - height * 0.72 + math.sin(angle) * r * height * 0.3,
                   scene.rng.uniform(4, 8), scene.rng.uniform(3, 6), scene.shade((66, 124, 58), 34))


def draw_ground(scene):
    scene.gradient(250, 330, (168, 164, 156), (182, 178, 170))
    for x in range(-400, 1100, 44):  # paving
        scene.line([(x, 330), (320 + (x - 320) * 0.72, 250)], 1, (148, 144, 136))
    for y in (262, 278, 300):
        scene.line([(0, y), (WIDTH, y)], 1, (148, 144, 136))
    scene.box(0, 328, WIDTH, 336, (206, 202, 194))
    scene.gradient(336, HEIGHT, (88, 90, 94), (66, 68, 72))
    for x in range(-60, WIDTH, 120):
        scene.polygon([(x, 412), (x + 62, 412), (x + 56, 420), (x - 8, 420)], (226, 222, 206))


def draw_wheel(scene, x, y, r):
    scene.disc(x, y, r, r, (30, 30, 32))
    scene.disc(x, y, r * 0.58, r * 0.58, (170, 174, 180))
    for k in range(5):
        a = k * 2 * math.pi / 5
        scene.line([(x, y), (x + math.cos(a) * r * 0.5, y + math.sin(a) * r * 0.5)], r * 0.12,
                   (96, 100, 106))


def draw_car(scene, x, y, length, paint):
    """`x`, `y`: the rear lower corner; the car faces right."""
    h = length * 0.3
    dark = tuple(int(v * 0.7) for v in paint)
    scene.disc(x + length / 2, y + h * 0.16, length * 0.5, h * 0.14, (44, 45, 48))
    scene.polygon([(x + length * 0.16, y - h * 0.62), (x + length * 0.28, y - h * 1.12),
                   (x + length * 0.62, y - h * 1.12), (x + length * 0.78, y - h * 0.6)], paint)
    for a, b in ((0.2, 0.43), (0.46, 0.73)):
        slope = 0.09
        scene.polygon([(x + length * a, y - h * 0.62),
                       (x + length * (a + (slope if a < 0.3 else 0)), y - h * 1.03),
                       (x + length * (b - (slope if b > 0.6 else 0)), y - h * 1.03),
                       (x + length * b, y - h * 0.62)], (62, 80, 98))
        scene.polygon([(x + length * (a + 0.1), y - h * 0.62), (x + length * (a + 0.13), y - h),
                       (x + length * (a + 0.16), y - h), (x + length * (a + 0.13), y - h * 0.62)],
                      (120, 142, 160))
    scene.box(x, y - h * 0.66, x + length, y - h * 0.06, paint, radius=h * 0.24)
    scene.box(x + length * 0.02, y - h * 0.2, x + length * 0.98, y - h * 0.06, dark, radius=h * 0.06)
    scene.line([(x + length * 0.45, y - h * 0.62), (x + length * 0.45, y - h * 0.12)], 1.2, dark)
    scene.box(x + length * 0.35, y - h * 0.48, x + length * 0.42, y - h * 0.44, dark)
    scene.disc(x + length * 0.965, y - h * 0.42, length * 0.02, h * 0.1, (255, 246, 204))
    scene.box(x, y - h * 0.5, x + length * 0.03, y - h * 0.34, (196, 34, 34))
    draw_wheel(scene, x + length * 0.21, y - h * 0.06, h * 0.3)
    draw_wheel(scene, x + length * 0.79, y - h * 0.06, h * 0.3)


def draw_person(scene, x, foot, height, shirt, trousers, hair, step=0.1):
    head = height * 0.075
    hip, neck = foot - height * 0.47, foot - height * 0.83
    scene.disc(x, foot, height * 0.16, height * 0.025, (128, 125, 119))
    for side in (-1, 1):
        knee = (x + side * height * step * 0.6, foot - height * 0.25)
        shoe = (x + side * height * step, foot - height * 0.02)
        scene.line([(x + side * height * 0.035, hip), knee, shoe], height * 0.075, trousers)
        scene.box(shoe[0] - height * 0.03, foot - height * 0.035, shoe[0] + height * 0.06, foot,
                  (42, 38, 36), radius=2)
        hand = (x + side * height * 0.14, hip + height * 0.03)
        scene.line([(x + side * height * 0.1, neck + height * 0.05),
                    (x + side * height * 0.15, neck + height * 0.2), hand], height * 0.05, shirt)
        scene.disc(*hand, height * 0.026, height * 0.026, SKIN)
    scene.polygon([(x - height * 0.12, neck + height * 0.03), (x + height * 0.12, neck + height * 0.03),
                   (x + height * 0.085, hip + height * 0.03), (x - height * 0.085, hip + height * 0.03)],
                  shirt)
    scene.box(x - height * 0.025, neck - height * 0.03, x + height * 0.025, neck + height * 0.04, SKIN)
    scene.disc(x, neck - head * 0.9, head * 0.8, head, SKIN)
    scene.draw.pieslice([v * SCALE for v in (x - head * 0.86, neck - head * 2.05, x + head * 0.86,
                                             neck + head * 0.1)], 175, 365, fill=hair)
    for side in (-1, 1):
        scene.disc(x + side * head * 0.3, neck - head * 0.85, head * 0.08, head * 0.1, (40, 34, 32))


def draw_dog(scene, x, foot, length, coat):
    dark = tuple(int(v * 0.72) for v in coat)
    h = length * 0.62
    scene.disc(x + length * 0.5, foot, length * 0.5, h * 0.06, (128, 125, 119))
    for k in (0.12, 0.24, 0.64, 0.76):
        scene.line([(x + length * k, foot - h * 0.5), (x + length * (k + 0.01), foot - h * 0.04)],
                   length * 0.07, dark if k in (0.24, 0.76) else coat)
    scene.disc(x + length * 0.44, foot - h * 0.56, length * 0.4, h * 0.2, coat)
    scene.line([(x + length * 0.08, foot - h * 0.62), (x - length * 0.06, foot - h * 0.86),
                (x - length * 0.04, foot - h * 1.0)], length * 0.05, coat)
    scene.line([(x + length * 0.74, foot - h * 0.62), (x + length * 0.86, foot - h * 0.88)],
               length * 0.15, coat)
    scene.disc(x + length * 0.9, foot - h * 0.94, length * 0.13, h * 0.15, coat)
    scene.disc(x + length * 1.02, foot - h * 0.88, length * 0.08, h * 0.08, coat)
    scene.disc(x + length * 1.08, foot - h * 0.9, length * 0.025, h * 0.035, (24, 22, 22))
    scene.disc(x + length * 0.93, foot - h * 0.98, length * 0.018, h * 0.026, (24, 22, 22))
    scene.polygon([(x + length * 0.8, foot - h * 1.06), (x + length * 0.88, foot - h * 1.04),
                   (x + length * 0.8, foot - h * 0.78)], dark)


def draw_bicycle(scene, x, foot, length, paint):
    r = length * 0.23
    rear, front = (x + r, foot - r), (x + length - r, foot - r)
    for cx, cy in (rear, front):
        scene.ring(cx, cy, r, 2.6, (34, 34, 36))
        for k in range(10):
            a = k * math.pi / 5
            scene.line([(cx, cy), (cx + math.cos(a) * r * 0.94, cy + math.sin(a) * r * 0.94)], 0.5,
                       (150, 152, 156))
    crank = (x + length * 0.46, foot - r * 0.95)
    seat, stem = (x + length * 0.38, foot - r * 2.3), (x + length * 0.7, foot - r * 2.35)
    for points in ([rear, crank, stem], [rear, seat, crank], [seat, stem], [stem, front]):
        scene.line(points, 3, paint)
    scene.line([(seat[0], seat[1]), (seat[0] - 2, seat[1] - 8)], 2.4, (60, 60, 64))
    scene.box(seat[0] - 11, seat[1] - 13, seat[0] + 9, seat[1] - 8, (36, 30, 28), radius=2)
    scene.line([stem, (stem[0] - 2, stem[1] - 14), (stem[0] + 9, stem[1] - 17)], 2.6, (60, 60, 64))
    scene.ring(*crank, r * 0.28, 2.4, (120, 122, 128))


def draw_traffic_light(scene, x, foot):
    scene.box(x - 3, foot - 190, x + 3, foot, (70, 74, 78))
    scene.box(x - 12, foot - 236, x + 12, foot - 176, (36, 38, 40), radius=4)
    for k, color in enumerate(((214, 50, 44), (92, 84, 44), (44, 78, 56))):
        scene.disc(x, foot - 226 + k * 20, 7, 7, color)


def draw_bench(scene, x, foot):
    for k in range(3):
        scene.box(x, foot - 52 + k * 9, x + 96, foot - 46 + k * 9, scene.shade((140, 94, 56), 10))
    scene.box(x - 2, foot - 24, x + 98, foot - 17, (128, 84, 50))
    for k in (8, 86):
        scene.box(x + k, foot - 54, x + k + 4, foot, (58, 60, 62))


def draw_bird(scene, x, y, size):
    scene.line([(x - size, y - size * 0.3), (x - size * 0.4, y - size * 0.5), (x, y),
                (x + size * 0.4, y - size * 0.5), (x + size, y - size * 0.3)], size * 0.16,
               (52, 54, 60))
    scene.disc(x, y + 1, size * 0.3, size * 0.14, (52, 54, 60))


def add_grain(image):
    """Sensor-like noise, coarse in the lights and fine everywhere, so that the JPEG has work."""
    rng = random.Random(SEED + 1)
    pixels = image.load()
    for y in range(image.height):
        for x in range(image.width):
            luma = rng.gauss(0, 3.2)
            pixels[x, y] = tuple(
                max(0, min(255, round(v + luma + rng.gauss(0, 1.2)))) for v in pixels[x, y])


def draw_scene():
    scene = Scene()
    draw_sky(scene)
    draw_building(scene, -6, 96, 150, 262, (170, 112, 92))
    draw_building(scene, 150, 140, 262, 262, (196, 182, 150))
    draw_building(scene, 452, 84, 646, 262, (150, 132, 124))
    draw_tree(scene, 372, 268, 176)
    draw_tree(scene, 296, 262, 110)
    draw_ground(scene)
    draw_traffic_light(scene, 436, 330)
    draw_bench(scene, 498, 312)
    draw_bicycle(scene, 24, 322, 112, (44, 112, 96))
    draw_person(scene, 206, 322, 158, (186, 58, 52), (48, 56, 84), (52, 38, 28))
    draw_person(scene, 330, 316, 142, (236, 200, 84), (72, 72, 78), (150, 104, 60), step=0.06)
    draw_person(scene, 612, 318, 150, (70, 110, 160), (96, 84, 70), (28, 26, 26), step=0.08)
    draw_dog(scene, 236, 326, 64, (166, 118, 70))
    draw_car(scene, 402, 398, 210, (40, 82, 156))
    draw_car(scene, 40, 462, 270, (182, 40, 44))
    for x, y, size in ((240, 90, 13), (268, 76, 10), (402, 58, 11)):
        draw_bird(scene, x, y, size)
    image = scene.image.resize((WIDTH, HEIGHT), Image.Resampling.BOX)
    image = image.filter(ImageFilter.GaussianBlur(0.5))
    add_grain(image)
    return image


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", help="the JPEG to write")
    args = parser.parse_args()
    draw_scene().save(args.output, "JPEG", quality=QUALITY, subsampling="4:2:0")
    return 0


if __name__ == "__main__":
    sys.exit(main())
