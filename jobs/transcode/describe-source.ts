import type { VideoManifest } from '../../lib/contract/manifest.ts'
import type { Source } from '../ffmpeg/source.ts'

/** What the manifest says of the source. */
export const describeSource = (source: Source & { videoSeconds: number }): VideoManifest['source'] => ({
  container: source.container,
  videoCodec: source.video.codec,
  audioCodec: source.audio?.codec ?? null,
  width: source.width,
  height: source.height,
  rotation: source.rotation,
  durationSec: source.videoSeconds,
  frameRate: source.averageFrameRate,
  hdr: source.hdr !== null,
  variableFrameRate: source.variableFrameRate,
  capturedAt: source.capturedAt,
  camera: source.camera,
  location: source.location,
})
