/**
 * Environment that makes chosen inputs meet trouble, by the id of the input: `exit-N` ends with that code before the
 * program begins, the others change what the program is told. What is not named here is left alone. It comes to the
 * pods through the store's secret, so image and Job are those of production.
 */
export function faultsIn(address: string): Record<string, string> {
  const told = {
    'bad-spec': { JOB_SPEC: '{}' },
    'bad-config': { THREADS: '0' },
    'no-bucket': { S3_BUCKET: 'no-such-bucket' },
    'no-store': { S3_ENDPOINT: `http://${address}:9` },
  }
  const script = `
    const id = JSON.parse(process.env.JOB_SPEC).inputs[0].id
    Object.assign(process.env, ${JSON.stringify(told)}[id])
    const code = /^exit-(\\d+)$/.exec(id)?.[1]
    if (code !== undefined) process.exit(Number(code))`
  const encoded = Buffer.from(script).toString('base64')
  return { NODE_OPTIONS: `--import=data:text/javascript;base64,${encoded}` }
}
