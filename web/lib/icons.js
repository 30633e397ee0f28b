import { html } from './html.js'

/** Lines on a square of 20. A picture of its own in the markup of a view is as welcome; here are those used often. */
const PATHS = {
  close: 'm5 5 10 10M15 5 5 15',
  back: 'm12.5 4-6 6 6 6',
  next: 'm7.5 4 6 6-6 6',
  add: 'M10 4v12M4 10h12',
  check: 'm4 10.5 4 4 8-9',
  trash: 'M4 5.5h12M8 5.5v-2h4v2M5.5 5.5l.7 11h7.6l.7-11M8.5 8.5v5M11.5 8.5v5',
  upload: 'M10 14V4m0 0L5.8 8.2M10 4l4.2 4.2M3.5 16.5h13',
  download: 'M10 3.5v9m0 0 4-4m-4 4-4-4M3.5 16.5h13',
  folder: 'M2.5 15.5v-11h5l2 2.5h8v8.5z',
  highlight: 'M4.5 4h11a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2h-11a2 2 0 0 1-2-2V6a2 2 0 0 1 2-2zM8.5 7.5v5l4-2.5z',
  album: 'M5 4h10a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2V6a2 2 0 0 1 2-2zM4 14.5 8 10l3 3 2-2 3.5 3.5',
  comment: 'M3 4.5h14v9.5H9.5L6 17v-3H3z',
  info: 'M17.5 10a7.5 7.5 0 1 1-15 0 7.5 7.5 0 0 1 15 0zM10 9.2v4.3M10 6.4v.1',
  more: 'M4.5 10v.1M10 10v.1M15.5 10v.1',
  leave: 'M8 3.5H4v13h4M12.5 6.5 16 10l-3.5 3.5M16 10H8',
  share: 'M10 12.5v-9m0 0L6.5 7M10 3.5 13.5 7M6 9.5H4.5v7h11v-7H14',
  handle: 'M7 4.5v.1M13 4.5v.1M7 10v.1M13 10v.1M7 15.5v.1M13 15.5v.1',
  up: 'M10 16V4m0 0L5 9m5-5 5 5',
  mail: 'M3.5 4.5h13a1 1 0 0 1 1 1v9a1 1 0 0 1-1 1h-13a1 1 0 0 1-1-1v-9a1 1 0 0 1 1-1zM3 5.5l7 5.5 7-5.5',
  event:
    'M4.5 4.5h11a1.5 1.5 0 0 1 1.5 1.5v9a1.5 1.5 0 0 1-1.5 1.5h-11A1.5 1.5 0 0 1 3 15V6a1.5 1.5 0 0 1 1.5-1.5zM3 8.5h14M6.5 2.5v3.5M13.5 2.5v3.5',
  person: 'M13 7a3 3 0 1 1-6 0 3 3 0 0 1 6 0zM4 17c.6-3 3-4.5 6-4.5s5.4 1.5 6 4.5',
  heart: 'M10 16.5S3 12.5 3 7.8A3.8 3.8 0 0 1 10 5.7a3.8 3.8 0 0 1 7 2.1c0 4.7-7 8.7-7 8.7z',
  star: 'm10 3 2.1 4.4 4.9.6-3.6 3.3.9 4.8L10 13.8l-4.3 2.3.9-4.8L3 8l4.9-.6z',
}

export const Icon = ({ name, size = 20 }) =>
  html`<svg aria-hidden="true" viewBox="0 0 20 20" width=${size} height=${size}><path d=${PATHS[name]} /></svg>`
