import { AuditKeys, openMasterKeys } from '../../api/audit/master-keys.ts'
import { openPersonalData, type PersonalDataOptions } from '../../api/audit/personal-data.ts'

/** The same for all programs of a test, which read each other's entries. */
export const AUDIT_KEYS = JSON.stringify({ current: 'm1', keys: { m1: Buffer.alloc(32, 9).toString('base64url') } })

export const testPersonalData = (db: PersonalDataOptions['db']) =>
  openPersonalData({ db, masters: openMasterKeys(AuditKeys.parse(JSON.parse(AUDIT_KEYS))) })
