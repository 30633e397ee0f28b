import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import type { Loudness } from './levelling.ts'

/** ffmpeg's ebur128 filter reports silence as about -120. */
const SILENT = -100
/** The first window is full after 400 ms; until then the filter reports silence. */
const UNFILLED_STEPS = 3
/** The gate of EBU R128: an integrated loudness of -70 means that nothing passed it. */
const GATE_LUFS = -70

/** The filters that write what EBU R128 says about the sound passing through to a file, for `readLoudness`. */
export const measuring = (reportPath: string): string =>
  `ebur128=metadata=1:peak=true,ametadata=mode=print:file=${filterValue(reportPath)}`

/** Escapes a value twice: for the list of a filter's options, and for the graph around it. */
const filterValue = (text: string): string =>
  text.replace(/[\\':]/g, String.raw`\$&`).replace(/[\\'[\],;]/g, String.raw`\$&`)

/** Reads the report, which has a group of lines for every tenth of a second. An absent report is that of no sound. */
export async function readLoudness(reportPath: string): Promise<Loudness> {
  const momentary: number[] = []
  let integrated = GATE_LUFS
  let peak = 0
  for await (const line of createInterface({ input: createReadStream(reportPath) })) {
    const [, key = '', text = ''] = /^lavfi\.r128\.(\w+)=(.+)$/.exec(line) ?? []
    const value = Number(text)
    if (key === 'M') momentary.push(value < SILENT ? Number.NEGATIVE_INFINITY : value)
    else if (key === 'I') integrated = value
    else if (key.startsWith('true_peaks_ch')) peak = Math.max(peak, value)
  }
  momentary.fill(momentary[UNFILLED_STEPS] ?? Number.NEGATIVE_INFINITY, 0, UNFILLED_STEPS)
  return {
    integrated: integrated > GATE_LUFS ? integrated : Number.NEGATIVE_INFINITY,
    momentary,
    truePeak: peak > 0 ? 20 * Math.log10(peak) : Number.NEGATIVE_INFINITY,
  }
}
