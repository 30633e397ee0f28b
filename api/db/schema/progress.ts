/** How far a run is, as a client is told. */
export interface Progress {
  percent: number
  speed: string | null
  eta_sec: number | null
  stage: string | null
}
