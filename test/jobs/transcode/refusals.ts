import { execFile } from 'node:child_process'
import { access, mkdir, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { type ClipName, clip, clipOf } from '../../support/clips.ts'
import { transcodeBench } from '../../support/transcode-run.ts'

const run = promisify(execFile)

t.test('bad inputs fail alone, each with its reason, and leave nothing behind', async (t) => {
  const bench = await transcodeBench(t)
  const bad: [ClipName, string][] = [
    ['truncated', 'Truncated'],
    ['damaged', 'CorruptInput'],
    ['exotic', 'UnsupportedCodec'],
    ['audioOnly', 'NoVideoStream'],
    ['farApart', 'LimitExceeded'],
  ]
  const inputs = [
    ...(await Promise.all(bad.map(async ([name]) => bench.inputOf(await clip(name), name, `${bench.prefix}${name}/`)))),
    await bench.inputOf(await clip('tiny'), 'good', `${bench.prefix}good/`),
  ]
  const { exit, result } = await bench.run(inputs)
  t.equal(exit, 12)
  t.equal(result?.ok, false)
  t.strictSame(
    result?.outputs?.map((o) => [o.id, o.state, o.reason]),
    [...bad.map(([name, reason]) => [name, 'Failed', reason]), ['good', 'Succeeded', undefined]],
  )
  for (const [name] of bad) t.strictSame(await bench.keys(`${bench.prefix}${name}/`), [])
  t.equal((await bench.manifest(`${bench.prefix}good/`)).id, 'good')
  t.strictSame(await bench.leftovers(), [])
})

t.test('an upload that is gone, and one that is no image, are told apart', async (t) => {
  const bench = await transcodeBench(t)
  const input = await bench.inputOf(await clip('tiny'))
  const gone = await bench.run([{ ...input, sourceKey: 'org/o/nothing' }])
  t.match(gone, { exit: 11, result: { outputs: [{ reason: 'InputMissing' }] } })
  const image = await bench.run([{ ...input, type: 'image' }])
  t.match(image, { exit: 12, result: { outputs: [{ reason: 'UnsupportedFormat' }] } })
  t.strictSame(await bench.keys(), [])
})

t.test('a specification that makes no sense is not tried again', async (t) => {
  const bench = await transcodeBench(t)
  for (const JOB_SPEC of ['', 'nonsense', '{"inputs":[]}']) {
    const { exit, result } = await bench.run([], {}, { JOB_SPEC })
    t.match({ exit, result }, { exit: 10, result: { ok: false, reason: 'BadSpec' } })
  }
})

t.test('a setting that makes no sense does not condemn the upload', async (t) => {
  const bench = await transcodeBench(t)
  const input = await bench.inputOf(await clip('tiny'))
  for (const [name, value] of [
    ['STORE_KIND', 'tape'],
    ['CORES', 'none'],
  ] as const) {
    const { exit, result } = await bench.run([input], {}, { [name]: value })
    t.match({ exit, result }, { exit: 20, result: { ok: false, reason: 'BadConfiguration' } })
    t.match(result?.message, new RegExp(`^Bad configuration:\\n  ${name}: `))
  }
  const { exit } = await bench.run([], {}, { JOB_SPEC: '{"inputs":[]}', CORES: 'none' })
  t.equal(exit, 10, 'nothing helps that specification')
})

t.test('a machine without ffmpeg does not condemn the upload', async (t) => {
  const bench = await transcodeBench(t)
  const input = await bench.inputOf(await clip('tiny'))
  const { exit, result } = await bench.start([input], {}, { PATH: join(bench.folder, 'nothing') }).finished
  t.match({ exit, result }, { exit: 20, result: { ok: false, reason: 'ToolMissing' } })
})

const noNvenc = { skip: (await hasNvenc()) && 'this machine has NVENC' }
t.test('without NVENC, auto encodes on the CPU and says why', noNvenc, async (t) => {
  const bench = await transcodeBench(t)
  const input = await bench.inputOf(await clip('tiny'))
  const auto = await bench.run([input], { accelerator: 'auto' })
  t.match(auto, { exit: 0, result: { accelerator: 'cpu', acceleratorReason: /^no NVENC on this node: [^[]/ } })
  const gpu = await bench.run([{ ...input, outputPrefix: `${bench.prefix}again/` }], { accelerator: 'gpu' })
  t.match(gpu, { exit: 13, result: { outputs: [{ reason: 'EncoderMissing', message: /no NVENC on this node/ }] } })
})

function hasNvenc(): Promise<boolean> {
  return access('/dev/nvidia0').then(
    () => true,
    () => false,
  )
}

t.test('a GPU that passes its test and then fails leaves the work to the CPU', async (t) => {
  const bench = await transcodeBench(t)
  const bin = await brokenGpu(bench.folder)
  const input = await bench.inputOf(await clip('short'))
  const path = { PATH: `${bin}${delimiter}${process.env['PATH']}` }
  const { exit, result, output } = await bench.run([input], { accelerator: 'auto' }, path)
  t.match(
    { exit, result },
    { exit: 0, result: { accelerator: 'cpu', acceleratorReason: /^The GPU could not encode/ } },
    output,
  )
  const only = await bench.run([{ ...input, outputPrefix: `${bench.prefix}gpu/` }], { accelerator: 'gpu' }, path)
  t.match(only, { exit: 22, result: { outputs: [{ reason: 'GpuFailed' }] } })
})

/** An ffmpeg whose NVENC passes the test and fails the work; no machine of ours does that on demand. */
async function brokenGpu(folder: string): Promise<string> {
  const bin = join(folder, 'bin')
  await mkdir(bin)
  const { stdout } = await run('sh', ['-c', 'command -v ffmpeg'])
  const script = `#!/bin/sh
case "$*" in
  *testsrc2*h264_nvenc*) exit 0 ;;
  *h264_nvenc*) echo "[h264_nvenc] [error] OpenEncodeSessionEx failed: out of memory (10)" >&2; exit 1 ;;
esac
exec ${stdout.trim()} "$@"
`
  await writeFile(join(bin, 'ffmpeg'), script, { mode: 0o755 })
  return bin
}

t.test('what a GPU has encoded and is not what is due leaves the work to the CPU, whenever it is found', async (t) => {
  const moving = ['-f', 'lavfi', '-i', 'testsrc2=s=160x90:r=10:d=5']
  // No GPU decodes it: the arguments are those of the CPU but for the encoder.
  const path = await clipOf([...moving, '-c:v', 'mpeg4', '-q:v', '5'])
  const table: [string, string, RegExp][] = [
    ['by a segment', '-g 999 -x264-params open-gop=1:bframes=3', /_00001\.ts: does not begin with a keyframe/],
    ['by the last look at all of them', '-g 5', /90p: 10 keyframes where 3 were due/],
  ]
  for (const [name, options, found] of table) {
    const bench = await transcodeBench(t)
    const PATH = `${await lyingGpu(bench.folder, options)}${delimiter}${process.env['PATH']}`
    const input = await bench.inputOf(path)
    const auto = await bench.run([input], { accelerator: 'auto', segmentSeconds: 2 }, { PATH })
    t.match(auto, { exit: 0, result: { accelerator: 'cpu', acceleratorReason: found } }, name)
    t.match(auto.result?.acceleratorReason, /^The GPU encoded what cannot be played/, name)
  }
})

/** An ffmpeg whose NVENC is x264 with these options. */
async function lyingGpu(folder: string, options: string): Promise<string> {
  const bin = join(folder, 'bin')
  await mkdir(bin)
  const { stdout } = await run('sh', ['-c', 'command -v ffmpeg'])
  const script = `#!/bin/sh
case "$*" in
  *testsrc2*h264_nvenc*) exit 0 ;;
  *h264_nvenc*)
    for arg; do
      shift
      if [ "$skips" ]; then skips=; continue; fi
      case "$arg" in
        h264_nvenc) set -- "$@" libx264 ${options} ;;
        -preset:v:*|-tune:v:*|-rc:v:*|-cq:v:*|-b:v:*|-forced-idr:v:*|-no-scenecut:v:*|-g:v:*) skips=1 ;;
        *) set -- "$@" "$arg" ;;
      esac
    done ;;
esac
exec ${stdout.trim()} "$@"
`
  await writeFile(join(bin, 'ffmpeg'), script, { mode: 0o755 })
  return bin
}
