{{- define "mnemogate.labels" -}}
app.kubernetes.io/name: mnemogate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Agents, servers and the gate of this release; those of another one are strangers to it. */}}
{{- define "mnemogate.role" -}}
mnemogate.dev/gate: {{ .Release.Name | quote }}
{{- end }}

{{- define "mnemogate.pod" -}}
serviceAccountName: {{ .Release.Name }}
automountServiceAccountToken: false
enableServiceLinks: false
shareProcessNamespace: false
terminationGracePeriodSeconds: 30
securityContext:
  runAsNonRoot: true
  # A mounted secret is root's; this group lets the gate read it, and no other container mounts it.
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "mnemogate.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "mnemogate.gate" -}}
name: mnemogate
image: {{ printf "%s:%s" .Values.image.repository .Values.image.tag | quote }}
env:
  - {name: MNEMOGATE_HEALTH, value: "0.0.0.0:7079"}
  - {name: MNEMOGATE_PAGE_URL, value: {{ .Values.pageUrl | quote }}}
  - {name: MNEMOGATE_AGENT_KEY_FILE, value: /etc/mnemogate/keys/agent}
  - {name: MNEMOGATE_OPERATOR_KEY_FILE, value: /etc/mnemogate/keys/operator}
  {{- if .Values.config }}
  - {name: MNEMOGATE_CONFIG, value: /etc/mnemogate/mnemogate.toml}
  {{- end }}
  {{- if eq .Values.form "gateway" }}
  {{- $service := printf "%s.%s" .Release.Name .Release.Namespace }}
  {{- $names := list .Release.Name $service (printf "%s.svc" $service) (printf "%s.svc.cluster.local" $service) }}
  - {name: MNEMOGATE_ALLOWED_HOSTS, value: {{ concat $names .Values.allowedHosts | join "," | quote }}}
  {{- end }}
  {{- range $name, $value := .Values.env }}
  - {name: {{ $name | quote }}, value: {{ $value | quote }}}
  {{- end }}
startupProbe:
  httpGet: {path: /readyz, port: health}
  {{- toYaml .Values.probes.startup | nindent 2 }}
readinessProbe:
  httpGet: {path: /readyz, port: health}
  {{- toYaml .Values.probes.readiness | nindent 2 }}
livenessProbe:
  httpGet: {path: /healthz, port: health}
  {{- toYaml .Values.probes.liveness | nindent 2 }}
securityContext:
  runAsUser: 10001
  runAsGroup: 10001
  {{- include "mnemogate.confined" . | nindent 2 }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
volumeMounts:
  - {name: state, mountPath: /var/lib/mnemogate}
  - {name: checkpoint, mountPath: /var/lib/mnemogate-checkpoint}
  - {name: keys, mountPath: /etc/mnemogate/keys, readOnly: true}
  {{- if .Values.config }}
  - {name: config, mountPath: /etc/mnemogate/mnemogate.toml, subPath: mnemogate.toml, readOnly: true}
  {{- end }}
{{- end }}

{{- define "mnemogate.volumes" -}}
- name: keys
  projected:
    defaultMode: 0440
    sources:
      - secret:
          name: {{ required "keys.agentSecret names a Secret of yours" .Values.keys.agentSecret | quote }}
          items: [{key: agent, path: agent}]
      - secret:
          name: {{ required "keys.operatorSecret names a Secret of yours" .Values.keys.operatorSecret | quote }}
          items: [{key: operator, path: operator}]
{{- if .Values.config }}
- name: config
  configMap:
    name: {{ .Release.Name }}
{{- end }}
{{- end }}

{{- /* Changes with the settings file, whose mount no running pod would see change. */}}
{{- define "mnemogate.configured" -}}
checksum/config: {{ .Values.config | sha256sum }}
{{- end }}

{{- define "mnemogate.claim" -}}
accessModes: [ReadWriteOncePod]
{{- if .class }}
storageClassName: {{ .class | quote }}
{{- end }}
resources:
  requests:
    storage: {{ .size | quote }}
{{- end }}
