import t from 'tap'
import { inOrder } from '../../../local/cluster/private-places.ts'

const same = (path: string) => ({ path, from: path })
const brief = (...args: Parameters<typeof inOrder>) => inOrder(...args).map(({ act, path }) => `${act} ${path}`)

const table: [string, string[], string[]][] = [
  ['what is not hidden need not be kept', brief(['/tmp'], [same('/usr/bin'), same('/tmpx')]), ['hide /tmp']],
  [
    'a kept folder comes after the hidden one that it lies in',
    brief(['/home/me', '/tmp'], [same('/tmp/pod'), same('/home/me/code')]),
    ['hide /tmp', 'hide /home/me', 'keep /tmp/pod', 'keep /home/me/code'],
  ],
  [
    'a hidden folder in a kept one, and the pod in it',
    brief(['/home/me', '/home/me/code/.data'], [same('/home/me/code/.data/pod'), same('/home/me/code')]),
    ['hide /home/me', 'keep /home/me/code', 'hide /home/me/code/.data', 'keep /home/me/code/.data/pod'],
  ],
  ['what is hidden is not kept', brief(['/tmp', '/tmp/x'], [same('/tmp/x')]), ['hide /tmp', 'hide /tmp/x']],
  ['each once', brief(['/tmp', '/tmp'], [same('/tmp/a'), same('/tmp/a')]), ['hide /tmp', 'keep /tmp/a']],
]
for (const [name, got, want] of table) t.test(name, async (t) => t.strictSame(got, want))

t.test('a link in a hidden folder leads to the same as before', async (t) => {
  t.strictSame(inOrder(['/run', '/home/me'], [{ path: '/run/sw/bin', from: '/home/me/store/bin' }]), [
    { act: 'hide', path: '/run' },
    { act: 'hide', path: '/home/me' },
    { act: 'keep', path: '/run/sw/bin', from: '/home/me/store/bin' },
    { act: 'keep', path: '/home/me/store/bin', from: '/home/me/store/bin' },
  ])
})
