{{/* The template of a server's pod, the same in the Deployment and the StatefulSet. */}}
{{- define "postrider.pod" -}}
{{- include "postrider.checkExpungeList" . }}
metadata:
  labels:
    {{- include "postrider.selector" . | nindent 4 }}
    {{- with .Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    # New settings or secrets restart the servers, one after the other.
    checksum/settings: {{ toJson .Values.settings | sha256sum }}
    checksum/secret: {{ printf "%s %s" .Values.secret.databaseURL .Values.secret.secretsKey | sha256sum }}
    {{- with .Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with .Values.serviceAccountName }}
  serviceAccountName: {{ . }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with .Values.podSecurityContext }}
  securityContext: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.initContainers }}
  initContainers: {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: postrider
      image: {{ include "postrider.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      # The image listens on :8080 and :9090, and has its data in /data.
      {{- include "postrider.env" . | nindent 6 }}
      ports:
        - {name: api, containerPort: 8080}
        - {name: ops, containerPort: 9090}
        {{- if eq .Values.store "postgres" }}
        - {name: peers, containerPort: 9091}
        {{- end }}
      # A server whose database is away lives and is not ready: a restart would not help. The
      # check of readiness may take 5 s. All servers share one database, so a short fault of it
      # must not take them all out at once: producers would get an answer of the ingress.
      startupProbe: {httpGet: {path: /livez, port: ops}, periodSeconds: 1, failureThreshold: 60}
      livenessProbe: {httpGet: {path: /livez, port: ops}, periodSeconds: 10, timeoutSeconds: 5}
      readinessProbe: {httpGet: {path: /readyz, port: ops}, periodSeconds: 2, timeoutSeconds: 6, failureThreshold: 5}
      # The API closes with the SIGTERM. In these 5 s load balancers learn that the pod ends.
      lifecycle: {preStop: {sleep: {seconds: 5}}}
      {{- with .Values.securityContext }}
      securityContext: {{- toYaml . | nindent 8 }}
      {{- end }}
      resources: {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        - {name: settings, mountPath: /etc/postrider, readOnly: true}
        - {name: data, mountPath: /data}
        {{- if .Values.certificateAuthorities.configMap }}
        - {name: authorities, mountPath: /etc/postrider-authorities, readOnly: true}
        {{- end }}
        {{- with .Values.extraVolumeMounts }}{{ toYaml . | nindent 8 }}{{ end }}
    {{- with .Values.extraContainers }}{{ toYaml . | nindent 4 }}{{ end }}
  volumes:
    - {name: settings, configMap: {name: {{ include "postrider.name" . }}}}
    {{- with .Values.certificateAuthorities.configMap }}
    - {name: authorities, configMap: {name: {{ . }}}}
    {{- end }}
    {{- with .Values.extraVolumes }}{{ toYaml . | nindent 4 }}{{ end }}
    {{- if eq .Values.store "postgres" }}
    - {name: data, emptyDir: {}}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    {{- with .Values.topologySpreadConstraints }}
    {{- toYaml . | nindent 4 }}
    {{- else }}
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{- include "postrider.selector" . | nindent 10 }}
    {{- end }}
{{- end }}
