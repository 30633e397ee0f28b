import { encode, sampleFile } from './sample-file.ts'

/** Two segments: the first plays while the second is made, and a highlight of it takes no longer than it must. */
const SAMPLE_SECONDS = 12

/**
 * Makes a clip in 1080p with sound at `path`, unless it exists. It zooms into a fractal: with detail and motion
 * everywhere, it takes as long to encode as filmed video. Aborting `signal` ends it at once.
 */
export async function sampleVideo(path: string, signal: AbortSignal): Promise<void> {
  const place = 'start_x=-0.743643887037151:start_y=0.13182590420533:start_scale=2.2:end_scale=0.0008:end_pts=600'
  const picture = `mandelbrot=size=640x360:rate=30:${place}:maxiter=300:outer=normalized_iteration_count`
  const tune = '0.22*sin(2*PI*t*(220+55*floor(mod(t,4))))*exp(-2.5*mod(t,1))'
  const args = [
    ...['-nostdin', '-v', 'error', '-y'],
    ...['-f', 'lavfi', '-i', picture],
    ...['-f', 'lavfi', '-i', `aevalsrc='${tune}':sample_rate=48000`],
    ...['-t', String(SAMPLE_SECONDS), '-vf', 'gblur=sigma=1,scale=1920:1080:flags=bicubic,eq=saturation=0.8'],
    ...['-c:v', 'libx264', '-preset', 'ultrafast', '-crf', '25', '-pix_fmt', 'yuv420p'],
    ...['-c:a', 'aac', '-b:a', '128k', '-movflags', '+faststart'],
  ]
  await sampleFile(path, (draft) => encode(signal, ['ffmpeg', ...args, draft]))
}
