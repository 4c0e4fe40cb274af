{{- define "tributary.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end -}}
{{- end }}

{{- define "tributary.operators" -}}
{{ include "tributary.name" . }}-operators
{{- end }}

{{- /* Where clients reach the coordinator. */ -}}
{{- define "tributary.clientsUrl" -}}
{{- if .Values.clientsUrl }}{{ .Values.clientsUrl }}
{{- else if .Values.ingress.enabled }}{{ if .Values.ingress.tlsSecret }}https{{ else }}http{{ end }}://{{ .Values.ingress.host }}
{{- else }}{{ lower .Values.probeScheme }}://{{ include "tributary.name" . }}.{{ .Release.Namespace }}:{{ .Values.service.port }}
{{- end -}}
{{- end }}

{{- define "tributary.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tributary.labels" -}}
{{ include "tributary.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "tributary.secret" -}}
{{ .Values.existingSecret | default (include "tributary.name" .) }}
{{- end }}
