import { exportJWK, generateKeyPair, type JWK } from 'jose'
import { newUuid } from '../../lib/contract/ids.ts'
import { readIfThere, writePrivateFile } from '../private-file.ts'

/** Reads the RS256 key of the folder, or creates it. It is kept, so tokens stay valid after a restart. */
export async function signingKey(path: string): Promise<JWK> {
  const kept = await readIfThere(path)
  if (kept !== undefined) return JSON.parse(kept) as JWK
  const pair = await generateKeyPair('RS256', { extractable: true })
  const key: JWK = { ...(await exportJWK(pair.privateKey)), kid: newUuid(), use: 'sig', alg: 'RS256' }
  await writePrivateFile(path, JSON.stringify(key))
  return key
}
