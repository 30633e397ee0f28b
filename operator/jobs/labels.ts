import { GROUP } from '../../crds/kind.ts'

export const MANAGED_BY = 'app.kubernetes.io/managed-by'
export const OPERATOR = 'keepsake-operator'
/** Selects the Jobs and pods of this operator. */
export const OUR_LABELS = `${MANAGED_BY}=${OPERATOR}`
/** Annotation of Jobs: digest of the configuration that they were created from. */
export const CONFIGURATION = `${GROUP}/configuration`
/** Label of Jobs and pods: uid of the custom resource, whose name may be too long for a label. */
export const OWNER_UID = `${GROUP}/owner-uid`
/** Label of Jobs and pods that do a part of the work of another Job, whose attempts and results they are no part of. */
export const ROLE = `${GROUP}/role`
export const HELPER = 'helper'
/** Selects all others. */
export const NO_HELPERS = `${ROLE}!=${HELPER}`
