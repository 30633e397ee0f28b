import { mkdir, rename, rm, stat } from 'node:fs/promises'
import { tmpdir, userInfo } from 'node:os'
import { dirname, join } from 'node:path'
import { ffmpeg } from '../../support/clips.ts'

export const LONG_SECONDS = 14

/**
 * 1080p with sound and so much noise that it fills three chunks of 5 MiB: two passes, three renditions, playable before
 * its end. Made once a machine.
 */
export async function longClip(): Promise<string> {
  const path = join(tmpdir(), `keepsake-node-clips-${userInfo().uid}-1`, 'long.mp4')
  if ((await stat(path).catch(() => undefined))?.isFile()) return path
  await mkdir(dirname(path), { recursive: true })
  const draft = `${path}.${process.pid}.mp4`
  try {
    await ffmpeg([
      ...['-f', 'lavfi', '-i', `testsrc2=s=1920x1080:r=24:d=${LONG_SECONDS}`],
      ...['-f', 'lavfi', '-i', `sine=f=440:d=${LONG_SECONDS}`, '-vf', 'noise=alls=12:allf=t'],
      ...['-c:v', 'libx264', '-preset', 'ultrafast', '-b:v', '7M', '-pix_fmt', 'yuv420p', '-g', '48'],
      ...['-c:a', 'aac', '-b:a', '96k', draft],
    ])
    await rename(draft, path)
  } finally {
    await rm(draft, { force: true })
  }
  return path
}
