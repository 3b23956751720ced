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
