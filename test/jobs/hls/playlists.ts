import t from 'tap'
import { averageBandwidth, peakBandwidth } from '../../../jobs/hls/bandwidth.ts'
import { formatMasterPlaylist } from '../../../jobs/hls/master-playlist.ts'
import { formatMediaPlaylist, parseMediaPlaylist } from '../../../jobs/hls/media-playlist.ts'

const segment = (bytes: number, seconds: number) => ({ bytes, seconds })

t.test('the peak is that of the densest run of about one target duration', async (t) => {
  t.equal(peakBandwidth([segment(6000, 6), segment(12_000, 6), segment(6000, 6)], 6), 16_000)
})
t.test('a last crumb of a segment is no peak of its own', async (t) => {
  t.equal(peakBandwidth([segment(6000, 6), segment(1000, 0.1)], 6), Math.ceil((7000 * 8) / 6.1))
})
t.test('two short neighbours count together', async (t) => {
  t.equal(peakBandwidth([segment(6000, 6), segment(4000, 2), segment(4000, 2)], 6), 16_000)
})
t.test('a stream of half a second has its average as its peak', async (t) => {
  t.equal(peakBandwidth([segment(1000, 0.5)], 6), 16_000)
})
t.test('the average counts every byte and every second', async (t) => {
  t.equal(averageBandwidth([segment(6000, 6), segment(1000, 1)]), 8000)
  t.equal(averageBandwidth([]), 0)
})

t.test('a media playlist survives being written and read', async (t) => {
  const playlist = { segments: [{ uri: '360p_00000.ts', seconds: 6.006 }], ended: true }
  const text = formatMediaPlaylist(playlist, 6)
  t.strictSame(parseMediaPlaylist(text), playlist)
  t.match(text, /#EXT-X-TARGETDURATION:6\n/)
  t.match(text, /#EXT-X-ENDLIST\n$/)
})
t.test('so does one of fragments, which names their initialization', async (t) => {
  const playlist = {
    segments: [{ uri: '1080p-hevc_00000.m4s', seconds: 6 }],
    ended: true,
    map: '1080p-hevc_init.mp4',
  }
  const text = formatMediaPlaylist(playlist, 6)
  t.strictSame(parseMediaPlaylist(text), playlist)
  t.match(text, /#EXT-X-VERSION:7\n[\s\S]*#EXT-X-MAP:URI="1080p-hevc_init.mp4"\n#EXTINF/)
  t.equal(parseMediaPlaylist(text.replace('1080p-hevc_init.mp4', '../secret_init.mp4'))?.map, undefined)
})
t.test('the target duration does not depend on how much is there yet', async (t) => {
  t.match(formatMediaPlaylist({ segments: [], ended: false }, 6), /#EXT-X-TARGETDURATION:6\n/)
  t.match(formatMediaPlaylist({ segments: [{ uri: 'a_00000.ts', seconds: 0.5 }], ended: true }, 6), /DURATION:6\n/)
})
t.test('an unfinished playlist has no end, and begins at its beginning', async (t) => {
  const text = formatMediaPlaylist({ segments: [{ uri: '360p_00000.ts', seconds: 6 }], ended: false }, 6)
  t.notMatch(text, 'ENDLIST')
  t.match(text, '#EXT-X-START:TIME-OFFSET=0')
})
t.test('what is no playlist of ours is not read', async (t) => {
  for (const bad of ['', 'EXTM3U', '#EXTM3U\nsegment.ts\n', '#EXTM3U\n#EXTINF:6,\n../../etc/passwd\n']) {
    t.equal(parseMediaPlaylist(bad), undefined)
  }
})

const rendition = {
  playlist: '720p.m3u8',
  width: 1280,
  height: 720,
  frameRate: 30000 / 1001,
  videoCodec: 'avc1.64001f',
  bandwidth: 3_100_000,
  averageBandwidth: 2_500_000,
}
t.test('the master playlist says what a player needs to choose', async (t) => {
  t.equal(
    formatMasterPlaylist([rendition], 'audio.m3u8'),
    `#EXTM3U
#EXT-X-VERSION:6
#EXT-X-INDEPENDENT-SEGMENTS
#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="audio",NAME="Audio",DEFAULT=YES,AUTOSELECT=YES,CHANNELS="2",URI="audio.m3u8"
#EXT-X-STREAM-INF:BANDWIDTH=3100000,AVERAGE-BANDWIDTH=2500000,CODECS="avc1.64001f,mp4a.40.2",RESOLUTION=1280x720,FRAME-RATE=29.970,VIDEO-RANGE=SDR,AUDIO="audio"
720p.m3u8
`,
  )
})
t.test('without sound nothing speaks of sound', async (t) => {
  const text = formatMasterPlaylist([rendition], undefined)
  t.notMatch(text, 'AUDIO')
  t.match(text, 'CODECS="avc1.64001f",')
})
