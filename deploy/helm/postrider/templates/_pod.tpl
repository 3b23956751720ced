{{/* The template of a server's pod, the same in the Deployment and the StatefulSet. */}}
{{- define "postrider.pod" -}}
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
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: postrider
      image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      # The image listens on :8080 and :9090, and has its data in /data.
      env:
        - {name: POSTRIDER_CONFIG, value: /etc/postrider/postrider.yaml}
        {{- with .Values.env }}{{ toYaml . | nindent 8 }}{{ end }}
      {{- if or .Values.secret.existing (include "postrider.makesSecret" .) .Values.envFrom }}
      envFrom:
        {{- if or .Values.secret.existing (include "postrider.makesSecret" .) }}
        - secretRef: {name: {{ include "postrider.secret" . }}}
        {{- end }}
        {{- with .Values.envFrom }}{{ toYaml . | nindent 8 }}{{ end }}
      {{- end }}
      ports:
        - {name: api, containerPort: 8080}
        - {name: ops, containerPort: 9090}
      # A server whose database is away lives and is not ready: a restart would not help. The
      # check of readiness may take 5 s.
      startupProbe: {httpGet: {path: /livez, port: ops}, periodSeconds: 1, failureThreshold: 60}
      livenessProbe: {httpGet: {path: /livez, port: ops}, periodSeconds: 10, timeoutSeconds: 5}
      readinessProbe: {httpGet: {path: /readyz, port: ops}, periodSeconds: 2, timeoutSeconds: 6, failureThreshold: 1}
      # The API closes with the SIGTERM. In these 5 s load balancers learn that the pod ends.
      lifecycle: {preStop: {sleep: {seconds: 5}}}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources: {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        - {name: settings, mountPath: /etc/postrider, readOnly: true}
        - {name: data, mountPath: /data}
  volumes:
    - {name: settings, configMap: {name: {{ include "postrider.name" . }}}}
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
