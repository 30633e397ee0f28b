/** A policy as a person writes it; `change` is its metadata and fields of its spec. */
export const newRetentionPolicy = ({ metadata, spec }: { metadata?: object; spec?: object } = {}) => ({
  apiVersion: 'media.keepsake.dev/v1alpha1',
  kind: 'RetentionPolicy',
  metadata: { name: 'trash', namespace: 'media', ...metadata },
  spec: {
    target: 'MediaTrash',
    schedule: '0 3 * * *',
    rules: [{ after: 'P30D', action: 'purge' }],
    ...spec,
  },
})
