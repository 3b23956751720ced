{{/* The name of every object: that of the release. 50 characters leave room for what is appended. */}}
{{- define "postrider.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{/* What selects the servers. It never changes, because a Deployment cannot change its selector. */}}
{{- define "postrider.selector" -}}
app.kubernetes.io/name: postrider
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "postrider.labels" -}}
{{ include "postrider.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "postrider.secret" -}}
{{ .Values.secret.existing | default (include "postrider.name" .) }}
{{- end }}

{{/* Whether the chart makes the Secret. A server on SQLite needs none. */}}
{{- define "postrider.makesSecret" -}}
{{- if and (not .Values.secret.existing) (or .Values.secret.databaseURL .Values.secret.secretsKey) }}yes{{ end }}
{{- end }}

{{- define "postrider.image" -}}
{{- if .Values.image.digest -}}
{{ printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end -}}
{{- end }}

{{/* The server's variables. */}}
{{- define "postrider.env" -}}
env:
  - {name: POSTRIDER_CONFIG, value: /etc/postrider/postrider.yaml}
  # For the other servers. On SQLite there are none.
  - name: POD_IP
    valueFrom: {fieldRef: {fieldPath: status.podIP}}
  - {name: POSTRIDER_PEER_LISTEN, value: "[$(POD_IP)]:9091"}
  {{- if .Values.certificateAuthorities.configMap }}
  # Beside the file of the image, which Go reads first.
  - {name: SSL_CERT_DIR, value: /etc/postrider-authorities}
  {{- end }}
  {{- with .Values.env }}{{ toYaml . | nindent 2 }}{{ end }}
{{- if or .Values.secret.existing (include "postrider.makesSecret" .) .Values.envFrom }}
envFrom:
  {{- if or .Values.secret.existing (include "postrider.makesSecret" .) }}
  - secretRef: {name: {{ include "postrider.secret" . }}}
  {{- end }}
  {{- with .Values.envFrom }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}
{{- end }}

{{/* Refuses a list of expunges that would be lost with its pod, or with the store. */}}
{{- define "postrider.checkExpungeList" -}}
{{- $files := list (get .Values.settings "expunge-list" | toString) }}
{{- range .Values.env }}{{ if eq .name "POSTRIDER_EXPUNGE_LIST" }}{{ $files = append $files (.value | toString) }}{{ end }}{{ end }}
{{- $lasting := dict }}
{{- range .Values.extraVolumes }}{{ if not (or (hasKey . "emptyDir") (hasKey . "configMap") (hasKey . "secret")) }}{{ $_ := set $lasting .name true }}{{ end }}{{ end }}
{{- range $file := $files }}
{{- if $file }}
{{- $found := false }}
{{- range $.Values.extraVolumeMounts }}{{ if and (hasPrefix (printf "%s/" (trimSuffix "/" .mountPath)) $file) (hasKey $lasting .name) }}{{ $found = true }}{{ end }}{{ end }}
{{- if not $found }}
{{- fail (printf "the setting expunge-list names %s, which would be lost with its pod: mount a volume that outlives it by extraVolumes and extraVolumeMounts" $file) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
