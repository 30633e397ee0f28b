import Hls from '/hls.js'
import { link } from './client.js'

// One at a time, and only for visible tiles: each loads the first segment of the smallest rendition.
let queue = Promise.resolve()
const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue
    seen.unobserve(target)
    queue = queue.then(() => draw(target)).catch(() => {})
  }
})

/** Draws a frame of the stream onto the canvas when it becomes visible. Without a frame the placeholder stays. */
export function posterFor(canvas, url) {
  canvas.streamUrl = url
  // A hidden canvas has no box to observe; its parent has.
  canvas.parentElement.poster = canvas
  seen.observe(canvas.parentElement)
}

async function draw(frame) {
  const canvas = frame.poster
  if (!canvas.isConnected) return
  const video = Object.assign(document.createElement('video'), { muted: true, playsInline: true })
  const hls = new Hls({ ...HLS, startLevel: 0, maxBufferLength: 3, maxMaxBufferLength: 6, capLevelToPlayerSize: false })
  const late = AbortSignal.timeout(8000)
  try {
    await new Promise((resolve, reject) => {
      late.addEventListener('abort', () => reject(late.reason))
      hls.on(Hls.Events.ERROR, (_, data) => data.fatal && reject(new Error(data.details)))
      video.addEventListener('loadeddata', () => {
        video.currentTime = Math.min(1.5, video.duration / 3)
      })
      video.addEventListener('seeked', resolve)
      hls.loadSource(link(canvas.streamUrl))
      hls.attachMedia(video)
    })
    const [w, h] = [video.videoWidth, video.videoHeight]
    if (w === 0) return
    const scale = Math.max(canvas.width / w, canvas.height / h)
    const [dw, dh] = [w * scale, h * scale]
    canvas.getContext('2d').drawImage(video, (canvas.width - dw) / 2, (canvas.height - dh) / 2, dw, dh)
    canvas.hidden = false
  } finally {
    hls.destroy()
  }
}

/** The settings of hls.js for the player and the posters. */
export const HLS = { workerPath: '/hls.worker.js', enableWorker: true }
