{{/* <release>-keepsake, short enough to stay below 63 characters with any suffix. */}}
{{- define "keepsake.fullname" -}}
{{- printf "%s-keepsake" .Release.Name | trunc 43 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of cluster-scoped objects: releases in two namespaces may have the same name. */}}
{{- define "keepsake.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "keepsake.fullname" .) -}}
{{- end -}}

{{- define "keepsake.selectorLabels" -}}
app.kubernetes.io/name: keepsake
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* (dict "root" . "component" "api"); the component is optional */}}
{{- define "keepsake.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{ include "keepsake.selectorLabels" .root }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- define "keepsake.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{- end -}}
{{- end -}}
{{- end -}}

{{- define "keepsake.watchesAll" -}}
{{- if eq .Values.watchNamespace "*" }}true{{ end -}}
{{- end -}}

{{/* The namespace in which the worker creates TranscodeJobs; the operator always watches it. */}}
{{- define "keepsake.jobNamespace" -}}
{{- if include "keepsake.watchesAll" . -}}
{{- .Values.jobs.namespace | default .Release.Namespace -}}
{{- else -}}
{{- $watched := .Values.watchNamespace | default .Release.Namespace -}}
{{- if and .Values.jobs.namespace (ne .Values.jobs.namespace $watched) -}}
{{- fail (printf "jobs.namespace is %q, but the operator watches only %q: leave jobs.namespace empty, or set watchNamespace to %q or \"*\"" .Values.jobs.namespace $watched .Values.jobs.namespace) -}}
{{- end -}}
{{- $watched -}}
{{- end -}}
{{- end -}}

{{- define "keepsake.progressUrl" -}}
{{- .Values.operator.progressUrl | default (printf "http://%s-operator.%s.svc:%v/progress" (include "keepsake.fullname" .) .Release.Namespace .Values.operator.service.port) -}}
{{- end -}}

{{- define "keepsake.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "keepsake.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{/* An environment variable from a key of a Secret: (dict "name" … "secret" … "key" …) */}}
{{- define "keepsake.secretEnv" -}}
- name: {{ .name }}
  valueFrom: { secretKeyRef: { name: {{ .secret | quote }}, key: {{ .key | quote }} } }
{{- end -}}

{{- define "keepsake.databaseEnv" -}}
{{- $secret := required "database.existingSecret is needed: the name of a Secret with the key DATABASE_URL" .Values.database.existingSecret -}}
{{- include "keepsake.secretEnv" (dict "name" "DATABASE_URL" "secret" $secret "key" .Values.database.key) -}}
{{- end -}}

{{- define "keepsake.natsEnv" -}}
- { name: BUS_KIND, value: nats }
{{- if .Values.nats.existingSecret }}
{{ include "keepsake.secretEnv" (dict "name" "NATS_URL" "secret" .Values.nats.existingSecret "key" .Values.nats.key) }}
{{- else }}
- { name: NATS_URL, value: {{ required "nats.url is needed, or nats.existingSecret with the key NATS_URL" .Values.nats.url | quote }} }
{{- end }}
- { name: NATS_REPLICAS, value: {{ .Values.nats.replicas | quote }} }
{{- end -}}

{{/* What the links of invitations and e-mails are made of, and the key of the ledger of erasures: the same in the API and the worker. */}}
{{- define "keepsake.linksEnv" -}}
{{- $keys := required "api.existingSecret is needed: the name of a Secret with the keys LINK_KEYS, CURSOR_KEY and ERASURE_KEY" .Values.api.existingSecret -}}
{{ include "keepsake.secretEnv" (dict "name" "LINK_KEYS" "secret" $keys "key" "LINK_KEYS") }}
{{ include "keepsake.secretEnv" (dict "name" "ERASURE_KEY" "secret" $keys "key" "ERASURE_KEY") }}
- { name: PUBLIC_URL, value: {{ required "api.publicUrl is needed, such as https://api.example.org" .Values.api.publicUrl | quote }} }
{{- with .Values.api.appUrl }}
- { name: APP_URL, value: {{ . | quote }} }
{{- end }}
- { name: BASE_PATH, value: {{ .Values.api.basePath | quote }} }
{{- end -}}

{{/* Of the personal data in the audit log: the same in the API and the worker. */}}
{{- define "keepsake.auditEnv" -}}
{{- $secret := required "audit.existingSecret is needed: the name of a Secret with the key AUDIT_KEYS" .Values.audit.existingSecret -}}
{{- include "keepsake.secretEnv" (dict "name" "AUDIT_KEYS" "secret" $secret "key" .Values.audit.key) -}}
{{- end -}}

{{- define "keepsake.mailEnv" -}}
{{- with .Values.mail -}}
{{- if .existingSecret }}
{{ include "keepsake.secretEnv" (dict "name" "SMTP_URL" "secret" .existingSecret "key" .key) }}
- { name: SMTP_REQUIRE_TLS, value: {{ .requireTls | quote }} }
- { name: MAIL_FROM, value: {{ required "mail.from is needed with mail.existingSecret, such as Keepsake <hello@example.org>" .from | quote }} }
{{- with .domain }}
- { name: MAIL_DOMAIN, value: {{ . | quote }} }
{{- end }}
{{- end }}
- { name: MAIL_LANGUAGE, value: {{ .language }} }
- { name: MAIL_TIME_ZONE, value: {{ .timeZone | quote }} }
{{- end -}}
{{- end -}}

{{/* Which devices may be registered: the same in the API and the worker, which asks again before it sends. */}}
{{- define "keepsake.pushEnv" -}}
{{- with .Values.push -}}
{{- with .vapid.existingSecret }}
{{ include "keepsake.secretEnv" (dict "name" "VAPID_PUBLIC_KEY" "secret" . "key" "VAPID_PUBLIC_KEY") }}
{{- end }}
{{- with .hosts }}
- { name: PUSH_HOSTS, value: {{ join "," . | quote }} }
{{- end }}
{{- end -}}
{{- end -}}

{{- define "keepsake.senderEnv" -}}
{{- with .Values.push -}}
{{- with .vapid }}
{{- if .existingSecret }}
{{ include "keepsake.secretEnv" (dict "name" "VAPID_PRIVATE_KEY" "secret" .existingSecret "key" "VAPID_PRIVATE_KEY") }}
- { name: VAPID_SUBJECT, value: {{ required "push.vapid.subject is needed with push.vapid.existingSecret, such as mailto:admin@example.org" .subject | quote }} }
{{- end }}
{{- end }}
{{- with .fcm.existingSecret }}
{{ include "keepsake.secretEnv" (dict "name" "FCM_SERVICE_ACCOUNT" "secret" . "key" $.Values.push.fcm.key) }}
{{- end }}
{{- end }}
{{- with .Values.webhooks }}
{{- with .allowedAddresses }}
- { name: OUTBOUND_ALLOWED_ADDRESSES, value: {{ join "," . | quote }} }
{{- end }}
- { name: OUTBOUND_PORTS, value: {{ join "," .ports | quote }} }
{{- end -}}
{{- end -}}

{{- define "keepsake.objectStoreSecret" -}}
{{- required "objectStore.existingSecret is needed: the name of a Secret with STORE_KIND and the S3_… keys" .Values.objectStore.existingSecret -}}
{{- end -}}

{{- define "keepsake.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* The part of a Deployment that all programs share: (dict "root" . "component" "api") */}}
{{- define "keepsake.deploymentHead" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "keepsake.fullname" .root }}-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "keepsake.labels" . | nindent 4 }}
spec:
  {{- if not (kindIs "invalid" .values.replicas) }}
  replicas: {{ .values.replicas }}
  {{- end }}
  revisionHistoryLimit: 5
  # Start a new pod before an old one ends, so that the number of ready pods never falls below `replicas`.
  strategy: { type: RollingUpdate, rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } }
  selector:
    matchLabels:
      {{- include "keepsake.selectorLabels" .root | nindent 6 }}
      app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Without the chart's version, so that a new chart version alone does not replace pods. */}}
{{- define "keepsake.podMetadata" -}}
labels:
  {{- include "keepsake.selectorLabels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .component }}
  {{- with .values.podLabels }}{{ toYaml . | nindent 2 }}{{ end }}
annotations:
  {{- /* A temporary folder must not keep the cluster autoscaler from removing a node. */}}
  {{- $ours := dict "kubectl.kubernetes.io/default-container" .component "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes" "tmp" }}
  {{- toYaml (merge dict (.values.podAnnotations | default dict) $ours) | nindent 2 }}
{{- end -}}

{{- define "keepsake.podSpec" -}}
serviceAccountName: {{ include "keepsake.fullname" .root }}-{{ .component }}
automountServiceAccountToken: {{ ne .component "api" }}
enableServiceLinks: false
{{- include "keepsake.pullSecrets" .root }}
securityContext: {{- include "keepsake.podSecurityContext" .root | nindent 2 }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  {{- range tuple "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "keepsake.selectorLabels" $.root | nindent 8 }}
        app.kubernetes.io/component: {{ $.component }}
  {{- end }}
volumes:
  - name: tmp
    emptyDir: { sizeLimit: {{ .values.scratch | default "128Mi" }} }
  {{- with .values.extraVolumes }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end -}}

{{/* The rest of a container after its name, command, environment and ports: (dict … "health" "internal") */}}
{{- define "keepsake.containerTail" -}}
image: {{ include "keepsake.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext: {{- include "keepsake.securityContext" .root | nindent 2 }}
resources: {{- toYaml .values.resources | nindent 2 }}
startupProbe:
  httpGet: { path: /livez, port: {{ .health }} }
  periodSeconds: 1
  failureThreshold: 120
livenessProbe:
  httpGet: { path: /livez, port: {{ .health }} }
  periodSeconds: 20
  timeoutSeconds: 5
readinessProbe:
  httpGet: { path: /readyz, port: {{ .health }} }
  periodSeconds: 5
  timeoutSeconds: 4
  failureThreshold: 2
volumeMounts:
  - { name: tmp, mountPath: /tmp }
  {{- with .values.extraVolumeMounts }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end -}}
