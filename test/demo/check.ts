import t, { type Test } from 'tap'
import { demoFolder } from '../support/demo-run.ts'

/**
 * `npm run test:demo`: `make demo CHECK=1` as the README has it, whole and with the encoder of production. Not part of
 * `npm test`, as it takes two minutes, which say nothing that the tests of the parts do not say.
 */
const { makeDemo, isClean } = await demoFolder(t)

// Minutes beside other work.
t.setTimeout(1_800_000)
t.test('the photos, the Live Photo, the highlight and the stream are checked, and nothing is left', async (t: Test) => {
  const { ended, output } = makeDemo(t)
  t.equal(await ended, 0, output())
  for (const line of [
    /Photos .* 5 photos and a Live Photo \(IMG_2107\.(HEIC|JPG) with IMG_2107\.MOV\)/,
    /Events .* “Thirty years on: the reunion” with guests, and a draft/,
    /Album .* of the event, with 6 photos, comments and reactions/,
    'Checked    5 photos: placeholder, image, WebP and thumbnail, without EXIF',
    'Checked    Live Photo: one media item, and its motion plays',
    /Upload .* in chunks, last ones first: med_/,
    /Conversion .* completed in .* s, playable after .* s/,
    /Highlight .* of the event, with music: hlt_/,
    /Highlight .* 3 items, 17\.0 s: completed in/,
    /Checked +highlight: [34] playlists of 17\.0 s, every segment decoded/,
    /Checked +360p\.m3u8: 2 segments, .* 12\.\d+ s decoded/,
    /Checked +audio\.m3u8: 3 segments, .* 12\.\d+ s decoded/,
    'The stream plays: 4 renditions of 12.00 s',
  ])
    t.match(output(), line)
  await isClean(t)
})
