/**
 * How far the smallest rendition has to run ahead of the others. Once a viewer who started at the first playable moment will
 * not catch up with one process that makes all renditions from the beginning of the clip, that process takes the place of
 * the first pass: it decodes the source once. All of it is pure; the caller tells the time.
 */

/** What one second of the clip costs, in a unit of its own. */
export interface PassCosts {
  /** The first pass: the smallest rendition. */
  ahead: number
  /** The pass that makes the others. */
  others: number
  /** One process for all. */
  all: number
}

export interface RunAhead {
  /** The clip's length. */
  seconds: number
  segmentSeconds: number
  /** The lowest of the renditions, in frames a second: that of the encoder which is behind for longest. */
  frameRate: number
  costs: PassCosts
}

/** All in seconds. */
export interface Progressed {
  /** What players can get of the clip. */
  covered: number
  /** What the encoder has made of it; more than `covered` by up to a segment. */
  made: number
  /** How much of it the first pass makes in a second; undefined: not yet known. */
  speed: number | undefined
  /** Since players could begin; undefined: they cannot yet. */
  playableFor: number | undefined
}

/** The content of a clip changes, and the costs are a model. */
const MARGIN = 0.8
/** From the decision to the first frame of the other process; more than Debian's ffmpeg needs. */
const START_SECONDS = 1.5
/** What an encoder has taken in before it gives its first frame: its lookahead, and some for its threads and B-frames. */
const DELAY_FRAMES = 50
/** Players give up a list that stays as it is for longer; in target durations. */
const LONGEST_GAP = 3
/** Of what one process costs. With less, a model that is a little wrong would make it cost more than two passes. */
const MIN_SAVING = 0.05

/** Seconds of the clip that one process for all renditions makes in a second, or a little less. */
export const speedOfAll = ({ costs }: RunAhead, speed: number): number => (MARGIN * speed * costs.ahead) / costs.all

/** Whether one process for all may take over now: no viewer will wait for it, and it costs less than going on. */
export function mayStop(run: RunAhead, { covered, made, speed, playableFor }: Progressed): boolean {
  if (speed === undefined || playableFor === undefined || !savesEnough(run, made)) return false
  const all = speedOfAll(run, speed)
  const { segmentSeconds } = run
  // Only one that is faster than playing can keep its distance. Its first segment that is new then comes closest.
  if (!(all > 1)) return false
  const isDue = covered - playableFor
  const isThere = START_SECONDS + (DELAY_FRAMES / run.frameRate + covered + segmentSeconds) / all
  // Players that saw the list grow look again after a target duration, those that did not after half of one.
  const isInTime = isDue >= isThere + segmentSeconds / 2 && isDue >= 2 * segmentSeconds
  return isInTime && isThere <= LONGEST_GAP * segmentSeconds
}

function savesEnough({ seconds, costs }: RunAhead, made: number): boolean {
  const [goingOn, takingOver] = [(seconds - made) * costs.ahead + seconds * costs.others, seconds * costs.all]
  return goingOn - takingOver >= MIN_SAVING * takingOver
}

/** Two reports of ffmpeg, or a little less. Shorter spans are too much a matter of chance. */
const MIN_SPAN_SECONDS = 0.9
/** Of the samples that are kept. */
const RECENT_SECONDS = 4

/** How fast an encoder is: on average or lately, whichever is less. Its start, before the first frame, does not count. */
export function openSpeedometer() {
  let first: Sample | undefined
  let recent: Sample[] = []
  return {
    /** Both in seconds: when, and how much of the clip was made by then. */
    add(at: number, made: number): void {
      if (!(Number.isFinite(at) && made > 0)) return
      const last = recent.at(-1)
      if (last && (at < last.at || made < last.made)) return
      first ??= { at, made }
      recent = [...recent.filter((sample) => at - sample.at <= RECENT_SECONDS), { at, made }]
    },
    speed(): number | undefined {
      const last = recent.at(-1)
      if (!first || !last || !(last.at - first.at >= MIN_SPAN_SECONDS)) return undefined
      const spans = [first, ...recent.slice(0, 1)].filter((from) => last.at - from.at >= MIN_SPAN_SECONDS)
      return Math.min(...spans.map((from) => (last.made - from.made) / (last.at - from.at)))
    },
  }
}

interface Sample {
  at: number
  made: number
}
