import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import document from '../../api/openapi.json' with { type: 'json' }
import { fakeMp4, formOf, startTestApi, type TestApi } from '../support/api.ts'
import { skipping } from './skipping.ts'
import { ensureSchemathesis } from './tools.ts'

/**
 * `npm run test:schemathesis`: requests made from the document, valid and invalid ones, and what they are answered. Not
 * part of `npm test`, as it fetches its tool. Settings and what is switched off: schemathesis.toml.
 */
const HERE = fileURLToPath(new URL('.', import.meta.url))
const DOCUMENT = fileURLToPath(new URL('../../api/openapi.json', import.meta.url))
/** Cases per operation and phase. */
const EXAMPLES = 25
/** Operations that schemathesis.toml switches off. */
const ENDLESS = ['followFeed']

// Minutes beside other work.
t.setTimeout(1_800_000)
await skipping(t, async () => {
  const { python, packages } = await ensureSchemathesis()
  const api = await startTestApi(t)
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-schemathesis-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const config = join(folder, 'schemathesis.toml')
  await writeFile(config, await configFor(api))

  const program = ['-c', 'from schemathesis.cli import schemathesis; schemathesis(prog_name="schemathesis")']
  const options = ['--url', `${api.publicUrl}/v1`, '-H', `Authorization: Bearer ${api.people.owner.token}`]
  const bounds = ['--generation-deterministic', '--max-examples', String(EXAMPLES), '--continue-on-failure']
  const args = [...program, '--no-color', '--config-file', config, 'run', DOCUMENT, ...options, ...bounds]
  const env = {
    PYTHONPATH: [packages, HERE].join(delimiter),
    PYTHONDONTWRITEBYTECODE: '1',
    SCHEMATHESIS_HOOKS: 'schemathesis_hooks',
  }
  const { code, output } = await run(python, args, { cwd: folder, env: { ...process.env, ...env } })

  const operations = Object.values(document.paths).flatMap((path) => Object.keys(path)).length
  t.match(output, new RegExp(`Tested: ${operations - ENDLESS.length}$`, 'm'), 'every other operation was tested')
  t.equal(code, 0, 'the API and its document agree')
  if (!t.passing()) t.comment(output)
})

/** What exists, for the placeholders of the settings. */
async function configFor(api: TestApi): Promise<string> {
  const { owner, another } = api.people
  const media = await api.call(owner, 'POST', `/api/media/${api.org}/single`, { form: formOf(fakeMp4(1000)) })
  const json = { filename: 'a.mp4', mime_type: 'video/mp4', file_size_bytes: 10, chunk_size_bytes: 5 }
  const upload = await api.call(owner, 'POST', `/api/media/${api.org}/upload`, { json })
  const events = `/api/orgs/${api.org}/events`
  const [event, draft] = await Promise.all(
    ['Reunion', 'Plan'].map((title) =>
      api.call(owner, 'POST', events, { json: { title, start_at: '2026-11-21T09:30:00Z' } }),
    ),
  )
  const eventId = event?.data.event_id
  await api.call(owner, 'POST', `${events}/${eventId}/activate`)
  const invited = { json: { email: 'bob@example.org' } }
  const invitation = await api.call(owner, 'POST', `${events}/${eventId}/invitations`, invited)
  const album = await api.call(owner, 'POST', `/api/orgs/${api.org}/albums`, { json: { title: 'Reunion' } })
  const comments = `${events}/${eventId}/meta/${eventId}/comments`
  const comment = await api.call(owner, 'POST', comments, { json: { body: 'So many of us!' } })
  const chosen = { title: 'Reunion', media_ids: [media.data.media_id] }
  const highlight = await api.call(owner, 'POST', `/api/media/${api.org}/highlights`, { json: chosen })
  const values: Record<string, string> = {
    ORGANIZATION: api.org,
    MEDIA: media.data.media_id,
    UPLOAD: upload.data.upload_id,
    EVENT: eventId,
    DRAFT: draft?.data.event_id,
    INVITATION: invitation.data.invitation_id,
    SLUG: invitation.data.slug,
    ALBUM: album.data.album_id,
    COMMENT: comment.data.comment_id,
    HIGHLIGHT: highlight.data.highlight_id,
    USER: api.people.member.wireId,
    SIGNED_OUT_TOKEN: another.token,
  }
  const settings = await readFile(join(HERE, 'schemathesis.toml'), 'utf8')
  return settings.replace(/\$\{(\w+)\}/g, (placeholder, name: string) => values[name] ?? placeholder)
}

async function run(program: string, args: string[], options: { cwd: string; env: NodeJS.ProcessEnv }) {
  const child = spawn(program, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
  t.teardown(() => void child.kill('SIGKILL'))
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (d: string) => (output += d))
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  return { code, output }
}
