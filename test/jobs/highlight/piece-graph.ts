import t from 'tap'
import { highlightLadder } from '../../../jobs/highlight/canvas.ts'
import { type Part, pieceGraph } from '../../../jobs/highlight/piece-graph.ts'

const still: Part = {
  from: 0,
  frames: 30,
  of: 30,
  fades: false,
  texts: [],
  picture: { kind: 'still', motion: null },
}
/** What follows the composition of the items. */
const ladderOf = (...names: ('360p' | '720p' | '1080p')[]) => {
  const renditions = highlightLadder('landscape', [{ width: 1920, height: 1080 }], names)
  const graph = pieceGraph({ parts: [still], renditions, fill: 'black' })
  return graph.slice(graph.indexOf(';[p0]') + 1).split(';')
}

t.test('each rendition is scaled from the next larger one, with square pixels', async (t) => {
  t.strictSame(ladderOf('360p', '720p', '1080p'), [
    '[p0]format=yuv420p,setsar=1,split[v2][r1]',
    '[r1]scale=1280:720:flags=bicubic,setsar=1,split[v1][r0]',
    '[r0]scale=640:360:flags=bicubic,setsar=1[v0]',
  ])
})

t.test('a highlight of one or two renditions', async (t) => {
  t.strictSame(ladderOf('1080p'), ['[p0]format=yuv420p,setsar=1[v0]'])
  t.strictSame(ladderOf('360p', '1080p'), [
    '[p0]format=yuv420p,setsar=1,split[v1][r0]',
    '[r0]scale=640:360:flags=bicubic,setsar=1[v0]',
  ])
})
