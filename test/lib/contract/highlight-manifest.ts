import t from 'tap'
import { HighlightManifest } from '../../../lib/contract/highlight-manifest.ts'

const manifest: HighlightManifest = {
  version: 1,
  id: 'hlt_1',
  createdAt: '2026-01-02T03:04:05Z',
  type: 'highlight',
  accelerator: 'cpu',
  hls: {
    master: 'master.m3u8',
    segmentSeconds: 6,
    durationSec: 7,
    renditions: [
      {
        name: '360p',
        width: 640,
        height: 360,
        bandwidth: 900_000,
        averageBandwidth: 500_000,
        codecs: 'avc1.64001f,mp4a.40.2',
        frameRate: 30,
        playlist: '360p.m3u8',
        segments: 2,
        bytes: 400_000,
      },
    ],
  },
  items: [{ id: 'med_1', startSec: 0, seconds: 7 }],
  skipped: [{ id: 'med_2', reason: 'CorruptInput', message: 'The image cannot be decoded' }],
  encode: { wallSeconds: 3, speed: 2.3, reused: 0 },
}

t.test('a highlight has at least one item and one rendition', async (t) => {
  t.strictSame(HighlightManifest.parse(manifest), manifest)
  for (const bad of [
    { ...manifest, items: [] },
    { ...manifest, hls: { ...manifest.hls, renditions: [] } },
    { ...manifest, type: 'video' },
    { ...manifest, items: Array.from({ length: 31 }, () => manifest.items[0]) },
  ]) {
    t.notOk(HighlightManifest.safeParse(bad).success)
  }
})
