interface Measured {
  bytes: number
  seconds: number
}

/**
 * Peak bits per second as RFC 8216 §4.1 defines it: the largest bit rate of any contiguous set of segments whose total
 * duration is between 0.5 and 1.5 times the target duration. For a shorter stream, its average.
 */
export function peakBandwidth(segments: readonly Measured[], targetSeconds: number): number {
  let peak = 0
  for (let from = 0; from < segments.length; from++) {
    let [bytes, seconds] = [0, 0]
    for (const segment of segments.slice(from)) {
      bytes += segment.bytes
      seconds += segment.seconds
      if (seconds > 1.5 * targetSeconds) break
      if (seconds >= 0.5 * targetSeconds) peak = Math.max(peak, (bytes * 8) / seconds)
    }
  }
  return Math.ceil(peak) || averageBandwidth(segments)
}

export function averageBandwidth(segments: readonly Measured[]): number {
  const bytes = segments.reduce((sum, s) => sum + s.bytes, 0)
  const seconds = segments.reduce((sum, s) => sum + s.seconds, 0)
  return seconds > 0 ? Math.ceil((bytes * 8) / seconds) : 0
}
