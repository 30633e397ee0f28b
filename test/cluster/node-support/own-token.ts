import type { Namespace } from './namespace.ts'

/** Runs in the pod: asks the API server as the program there would, and prints the statuses. */
const SCRIPT = `
  const { readFileSync } = require('node:fs')
  const { request } = require('node:https')
  const folder = '/var/run/secrets/kubernetes.io/serviceaccount/'
  const read = (name) => { try { return readFileSync(folder + name, 'utf8') } catch { return undefined } }
  const [token, ca] = [read('token'), read('ca.crt')]
  const ask = (line) => new Promise((resolve, reject) => {
    if (token === undefined) return resolve('no token')
    const [method, path] = line.split(' ')
    const body = method === 'GET' || method === 'DELETE' ? undefined : '{}'
    const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
    const headers = { authorization: 'Bearer ' + token, ...(body && { 'content-type': type }) }
    const url = 'https://' + process.env.KUBERNETES_SERVICE_HOST + ':' + process.env.KUBERNETES_SERVICE_PORT + '/' + path
    request(url, { method, headers, ca }, (answer) => { answer.resume(); resolve(answer.statusCode) })
      .on('error', reject).end(body)
  })
  Promise.all(JSON.parse(process.argv[1]).map(ask)).then((codes) => console.log(JSON.stringify(codes)))`

/** The statuses of requests like `GET api/v1/nodes`, sent from a pod with the token that it was given. */
export async function requestsFrom(
  namespace: Namespace,
  pod: string,
  requests: readonly string[],
): Promise<(number | string)[]> {
  const out = await namespace.kubectl('exec', pod, '--', 'node', '--eval', SCRIPT, JSON.stringify(requests))
  return JSON.parse(out) as (number | string)[]
}
