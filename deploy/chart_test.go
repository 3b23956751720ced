package deploy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

const chartFolder = "helm/postrider"

// chartCases are values, and the objects that they make.
var chartCases = []struct{ name, values, objects string }{
	{
		"a database by URL", `{secret: {databaseURL: "postgres://postrider:x@db/postrider"}}`,
		"ConfigMap Deployment PodDisruptionBudget Secret Service Service",
	},
	{
		"a Secret that exists",
		`{secret: {existing: mine}, podDisruptionBudget: {enabled: false}, settings: {public-url: "https://hooks.example.com", body-budget: 67108864, egress-http: true}}`,
		"ConfigMap Deployment Service Service",
	},
	{"SQLite", `{store: sqlite, volume: {size: 20Gi, storageClass: fast}}`, "ConfigMap Service Service StatefulSet"},
	{"SQLite with keys of its own", `{store: sqlite, secret: {secretsKey: "1:abc"}}`, "ConfigMap Secret Service Service StatefulSet"},
	{
		"everything", `{
		secret: {existing: mine}, autoscaling: {enabled: true, maxReplicas: 5}, serviceMonitor: {enabled: true, labels: {release: prometheus}},
		prometheusRule: {enabled: true, labels: {release: prometheus}}, dashboard: {enabled: true}, networkPolicy: {enabled: true},
		ingress: {enabled: true, className: nginx, host: hooks.example.com, tlsSecret: hooks-tls, annotations: {a: b}},
		image: {tag: 1.2.3}, imagePullSecrets: [{name: registry}], serviceAccountName: postrider, priorityClassName: high,
		env: [{name: GOMEMLIMIT, value: 900MiB}], envFrom: [{secretRef: {name: more}}], podAnnotations: {a: b}, podLabels: {team: hooks},
		nodeSelector: {disk: fast}, tolerations: [{key: hooks, operator: Exists}], service: {annotations: {a: b}},
		affinity: {nodeAffinity: {}}, topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}`,
		"ConfigMap ConfigMap Deployment HorizontalPodAutoscaler Ingress NetworkPolicy PodDisruptionBudget PrometheusRule Service Service ServiceMonitor",
	},
	{
		"volumes, containers and authorities", `{
		secret: {existing: mine}, settings: {expunge-list: /lists/expunged, smtp-ca-file: /ca/smtp.pem}, certificateAuthorities: {configMap: authorities},
		extraVolumes: [{name: lists, persistentVolumeClaim: {claimName: lists}}, {name: ca, secret: {secretName: smtp}}, {name: keys, secret: {secretName: keys, defaultMode: 256}}],
		extraVolumeMounts: [{name: lists, mountPath: /lists}, {name: ca, mountPath: /ca}, {name: keys, mountPath: /keys}],
		initContainers: [{name: wait, image: wait}], extraContainers: [{name: proxy, image: proxy}],
		podSecurityContext: {runAsUser: null, runAsGroup: null, fsGroup: null}, image: {digest: "sha256:` + strings.Repeat("a", 64) + `"},
		networkPolicy: {enabled: true, egress: [{to: [{podSelector: {matchLabels: {app: postgres}}}], ports: [{port: 5432}]}]}}`,
		"ConfigMap Deployment NetworkPolicy PodDisruptionBudget Service Service",
	},
	{"SQLite with backups", `{store: sqlite, backup: {enabled: true, claim: backups}}`, "ConfigMap CronJob Service Service StatefulSet"},
	{
		"metrics for every namespace", `{store: sqlite, networkPolicy: {enabled: true, metricsFrom: {kubernetes.io/metadata.name: null}}}`,
		"ConfigMap NetworkPolicy Service Service StatefulSet",
	},
}

func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	loaded, err := loader.Load(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// render renders the chart as helm install does, and checks the values by the schema.
func render(t *testing.T, values string) (map[string]string, error) {
	t.Helper()
	var given map[string]any
	if err := yaml.UnmarshalStrict([]byte(values), &given); err != nil {
		t.Fatal(err)
	}
	loaded := loadChart(t)
	release := chartutil.ReleaseOptions{Name: "hooks", Namespace: "apps", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(loaded, given, release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(loaded, all)
}

// kinds has the type of each kind of object that the chart makes.
var kinds = map[string]any{
	"ConfigMap": corev1.ConfigMap{}, "Secret": corev1.Secret{}, "Service": corev1.Service{},
	"Deployment": appsv1.Deployment{}, "StatefulSet": appsv1.StatefulSet{},
	"PodDisruptionBudget": policyv1.PodDisruptionBudget{}, "HorizontalPodAutoscaler": autoscalingv2.HorizontalPodAutoscaler{},
	"CronJob": batchv1.CronJob{},
	"Ingress": networkingv1.Ingress{}, "NetworkPolicy": networkingv1.NetworkPolicy{},
	"ServiceMonitor": monitoringv1.ServiceMonitor{}, "PrometheusRule": monitoringv1.PrometheusRule{},
}

// apiVersions has the version of the API of each.
var apiVersions = map[string]string{
	"CronJob":   "batch/v1",
	"ConfigMap": "v1", "Secret": "v1", "Service": "v1", "Deployment": "apps/v1", "StatefulSet": "apps/v1",
	"PodDisruptionBudget": "policy/v1", "HorizontalPodAutoscaler": "autoscaling/v2", "Ingress": "networking.k8s.io/v1",
	"NetworkPolicy": "networking.k8s.io/v1", "ServiceMonitor": "monitoring.coreos.com/v1", "PrometheusRule": "monitoring.coreos.com/v1",
}

// objects are the rendered objects by kind and name.
type objects map[string]any

// decode decodes the rendered files into the types of Kubernetes. A field that a type does not
// have, and one that is written twice, fails the test.
func decode(t *testing.T, files map[string]string) objects {
	t.Helper()
	all := objects{}
	for name, text := range files {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for _, document := range regexp.MustCompile(`(?m)^---$`).Split(text, -1) {
			if strings.TrimSpace(document) == "" {
				continue
			}
			var head metav1.PartialObjectMetadata
			if err := yaml.Unmarshal([]byte(document), &head); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, document)
			}
			kind, ok := kinds[head.Kind]
			if !ok || head.APIVersion != apiVersions[head.Kind] {
				t.Fatalf("%s has a %s %s", name, head.APIVersion, head.Kind)
			}
			object := reflect.New(reflect.TypeOf(kind)).Interface()
			if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, document)
			}
			key := head.Kind + " " + head.Name
			if all[key] != nil {
				t.Fatalf("%s is made twice", key)
			}
			all[key] = object
		}
	}
	return all
}

func TestChartIsLinted(t *testing.T) {
	t.Parallel()
	for _, tt := range chartCases {
		var values map[string]any
		if err := yaml.Unmarshal([]byte(tt.values), &values); err != nil {
			t.Fatal(err)
		}
		for _, message := range lint.All(chartFolder, values, "apps", true).Messages {
			if message.Severity > support.InfoSev {
				t.Errorf("%s: %v", tt.name, message)
			}
		}
	}
	if version := loadChart(t).Metadata.KubeVersion; !chartutil.IsCompatibleRange(version, "v1.30.0") ||
		chartutil.IsCompatibleRange(version, "v1.29.9") {
		t.Errorf("the chart is for Kubernetes %s, want 1.30 and newer", version)
	}
}

func TestChartIsRendered(t *testing.T) {
	t.Parallel()
	for _, tt := range chartCases {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			files, err := render(t, tt.values)
			if err != nil {
				t.Fatal(err)
			}
			all := decode(t, files)
			var made []string
			for key := range all {
				made = append(made, strings.Fields(key)[0])
			}
			slices.Sort(made)
			if got := strings.Join(made, " "); got != tt.objects {
				t.Errorf("the objects are %s, want %s", got, tt.objects)
			}
			all.check(t)
			if notes := files["postrider/templates/NOTES.txt"]; !strings.Contains(notes, "keys create --name first --scope admin") ||
				strings.Contains(notes, "<no value>") {
				t.Errorf("the notes are\n%s", notes)
			}
		})
	}
}

func TestChartRefusesValues(t *testing.T) {
	t.Parallel()
	for values, reason := range map[string]string{
		`{}`: "the store postgres needs a database",
		`{store: sqlite, autoscaling: {enabled: true}}`:             "the store sqlite has one server",
		`{store: sqlite, secret: {databaseURL: "postgres://db/p"}}`: "secret.databaseURL needs the store postgres",
		`{store: mysql}`:                                              "store",
		`{secret: {existing: mine}, replica: 3}`:                      "replica",
		`{secret: {databaseURL: "mysql://db"}}`:                       "databaseURL",
		`{secret: {existing: mine}, ingress: {enabled: true}}`:        "host",
		`{secret: {existing: mine}, settings: {listen: ":80"}}`:       "listen",
		`{secret: {existing: mine}, settings: {public_url: "https"}}`: "public_url",
		`{secret: {existing: mine}, replicas: 0}`:                     "replicas",
		`{secret: {existing: mine}, image: {digest: latest}}`:         "digest",
		`{secret: {existing: mine}, backup: {enabled: true}}`:         "claim",

		`{secret: {existing: mine}, backup: {enabled: true, claim: b}}`:       "backup copies the store sqlite",
		`{secret: {existing: mine}, settings: {expunge-list: /data/list}}`:    "the setting expunge-list names /data/list, which would be lost with its pod",
		`{store: sqlite, env: [{name: POSTRIDER_EXPUNGE_LIST, value: /l/x}]}`: "the setting expunge-list names /l/x",

		`{secret: {existing: mine}, settings: {expunge-list: /l/x}, extraVolumes: [{name: l, emptyDir: {}}], extraVolumeMounts: [{name: l, mountPath: /l}]}`: "lost with its pod",
	} {
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v, want an error that says %q", values, err, reason)
		}
	}
}

// pods returns the template of the pods and the selector of what makes them.
func (o objects) pods(t *testing.T) (corev1.PodTemplateSpec, labels.Selector) {
	t.Helper()
	var template corev1.PodTemplateSpec
	var selects *metav1.LabelSelector
	switch {
	case o["Deployment hooks"] != nil:
		d := o["Deployment hooks"].(*appsv1.Deployment)
		template, selects = d.Spec.Template, d.Spec.Selector
	case o["StatefulSet hooks"] != nil:
		s := o["StatefulSet hooks"].(*appsv1.StatefulSet)
		template, selects = s.Spec.Template, s.Spec.Selector
		if *s.Spec.Replicas != 1 || len(s.Spec.VolumeClaimTemplates) != 1 || o["Service "+s.Spec.ServiceName] == nil {
			t.Errorf("the StatefulSet is %+v", s.Spec)
		}
	default:
		t.Fatal("there are no servers")
	}
	selector, err := metav1.LabelSelectorAsSelector(selects)
	if err != nil {
		t.Fatal(err)
	}
	if !selector.Matches(labels.Set(template.Labels)) {
		t.Errorf("%v does not select pods with the labels %v", selector, template.Labels)
	}
	return template, selector
}

// check checks what Kubernetes would not: that objects which name each other fit.
func (o objects) check(t *testing.T) {
	t.Helper()
	template, _ := o.pods(t)
	checkSecurity(t, &template.Spec)
	o.checkMounts(t, &template.Spec)
	ports := map[string]bool{}
	for _, port := range template.Spec.Containers[0].Ports {
		ports[port.Name] = true
	}
	for key, object := range o {
		var selector labels.Selector
		switch object := object.(type) {
		case *corev1.Service:
			selector = labels.SelectorFromSet(object.Spec.Selector)
			if target := object.Spec.Ports[0].TargetPort.StrVal; !ports[target] {
				t.Errorf("%s: pods have no port %q", key, target)
			}
		case *policyv1.PodDisruptionBudget:
			selector, _ = metav1.LabelSelectorAsSelector(object.Spec.Selector)
		case *batchv1.CronJob:
			pod := object.Spec.JobTemplate.Spec.Template
			selected, _ := o.pods(t)
			if labels.SelectorFromSet(selected.Labels).Matches(labels.Set(pod.Labels)) ||
				pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != "data-hooks-0" {
				t.Errorf("%s takes requests, or copies another volume: %+v", key, pod)
			}
		case *networkingv1.NetworkPolicy:
			selector, _ = metav1.LabelSelectorAsSelector(&object.Spec.PodSelector)
		case *autoscalingv2.HorizontalPodAutoscaler:
			scaled, ok := o["Deployment "+object.Spec.ScaleTargetRef.Name].(*appsv1.Deployment)
			if !ok || scaled.Spec.Replicas != nil {
				t.Errorf("%s scales what is not there, or has replicas of its own", key)
			}
		case *monitoringv1.ServiceMonitor:
			o.checkMonitor(t, object)
		case *monitoringv1.PrometheusRule:
			checkSameRules(t, object)
		}
		if selector != nil && !selector.Matches(labels.Set(template.Labels)) {
			t.Errorf("%s selects %v, and the pods have %v", key, selector, template.Labels)
		}
	}
}

// checkSecurity checks that the pod runs with the least rights.
func checkSecurity(t *testing.T, pod *corev1.PodSpec) {
	t.Helper()
	context := pod.Containers[0].SecurityContext
	if !*pod.SecurityContext.RunAsNonRoot || !*context.ReadOnlyRootFilesystem || *context.AllowPrivilegeEscalation ||
		!slices.Equal(context.Capabilities.Drop, []corev1.Capability{"ALL"}) || *pod.AutomountServiceAccountToken ||
		pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod may too much: %+v, %+v", pod.SecurityContext, context)
	}
	if *pod.EnableServiceLinks {
		t.Error("Kubernetes sets variables POSTRIDER_*, which the server refuses")
	}
	if tolerates := pod.Containers[0].ReadinessProbe; tolerates.PeriodSeconds*(tolerates.FailureThreshold-1) < 5 {
		t.Errorf("a short fault of the database makes all servers unready: %v", tolerates)
	}
	probes := []*corev1.Probe{pod.Containers[0].StartupProbe, pod.Containers[0].LivenessProbe, pod.Containers[0].ReadinessProbe}
	for i, path := range []string{"/livez", "/livez", "/readyz"} {
		if probes[i] == nil || probes[i].HTTPGet.Path != path || probes[i].HTTPGet.Port.StrVal != "ops" {
			t.Errorf("probe %d is %v, want %s of the port ops", i, probes[i], path)
		}
	}
	if ends := *pod.TerminationGracePeriodSeconds; ends < 5+35+5 {
		t.Errorf("a server is killed after %d s; it needs 45", ends)
	}
}

// checkMounts checks that what the pod mounts and reads is there, and that the program accepts
// the settings.
func (o objects) checkMounts(t *testing.T, pod *corev1.PodSpec) {
	t.Helper()
	volumes := map[string]bool{}
	for _, volume := range pod.Volumes {
		volumes[volume.Name] = true
		if volume.ConfigMap != nil && volume.ConfigMap.Name != "authorities" && o["ConfigMap "+volume.ConfigMap.Name] == nil {
			t.Errorf("there is no ConfigMap %s", volume.ConfigMap.Name)
		}
	}
	if s, ok := o["StatefulSet hooks"].(*appsv1.StatefulSet); ok {
		volumes[s.Spec.VolumeClaimTemplates[0].Name] = true
	}
	for _, mount := range pod.Containers[0].VolumeMounts {
		if !volumes[mount.Name] {
			t.Errorf("there is no volume %s", mount.Name)
		}
	}
	given := []string{"mine", "more", "postrider"}
	for _, from := range pod.Containers[0].EnvFrom {
		if o["Secret "+from.SecretRef.Name] == nil && !slices.Contains(given, from.SecretRef.Name) {
			t.Errorf("there is no Secret %s", from.SecretRef.Name)
		}
	}
	settings := o["ConfigMap hooks"].(*corev1.ConfigMap).Data["postrider.yaml"]
	file := filepath.Join(t.TempDir(), "postrider.yaml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	check := exec.CommandContext(t.Context(), program(t), "config", "check")
	check.Env = []string{"HOME=" + t.TempDir(), "POSTRIDER_CONFIG=" + file, "POSTRIDER_DATA_DIR=" + t.TempDir()}
	if secret, ok := o["Secret hooks"].(*corev1.Secret); ok && secret.StringData["POSTRIDER_DATABASE_URL"] != "" {
		check.Env = append(check.Env, "POSTRIDER_DATABASE_URL="+secret.StringData["POSTRIDER_DATABASE_URL"])
	}
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("the program refuses its settings: %v\n%s\n%s", err, settings, out)
	}
}

// checkMonitor checks that the monitor selects one Service, by a port that it has, and that
// the alerts know the job.
func (o objects) checkMonitor(t *testing.T, monitor *monitoringv1.ServiceMonitor) {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	if err != nil {
		t.Fatal(err)
	}
	var selected []string
	for _, object := range o {
		service, ok := object.(*corev1.Service)
		if ok && selector.Matches(labels.Set(service.Labels)) {
			selected = append(selected, service.Name)
			if service.Spec.Ports[0].Name != monitor.Spec.Endpoints[0].Port || service.Labels[monitor.Spec.JobLabel] != "postrider" {
				t.Errorf("the monitor scrapes %+v as %q", service.Spec.Ports, service.Labels[monitor.Spec.JobLabel])
			}
		}
	}
	if !slices.Equal(selected, []string{"hooks-ops"}) {
		t.Errorf("the monitor selects %q", selected)
	}
}

// checkSameRules checks that the object has the rules of the file.
func checkSameRules(t *testing.T, object *monitoringv1.PrometheusRule) {
	t.Helper()
	want, got := map[string]string{}, map[string]string{}
	for _, r := range readRules(t) {
		want[r.Alert+r.Record] = fmt.Sprintln(r.Expr, r.For, r.Labels, r.Annotations)
	}
	for _, group := range object.Spec.Groups {
		for _, r := range group.Rules {
			wait := ""
			if r.For != nil {
				wait = string(*r.For)
			}
			got[r.Alert+r.Record] = fmt.Sprintln(r.Expr.StrVal, wait, r.Labels, r.Annotations)
		}
	}
	if !maps.Equal(want, got) {
		t.Errorf("the rules of the chart are %v, want %v", got, want)
	}
}

// TestHandbookValues renders the values that docs/operate/kubernetes.md shows.
func TestHandbookValues(t *testing.T) {
	t.Parallel()
	page := string(readFile(t, "../docs/operate/kubernetes.md"))
	var values string
	for _, begins := range []string{"    image:\n", "    serviceMonitor:\n"} {
		_, block, ok := strings.Cut(page, begins)
		block, _, _ = strings.Cut(begins+block, "\n\n")
		if !ok {
			t.Fatalf("the page has no values that begin with %q", begins)
		}
		values += regexp.MustCompile(`(?m)^    `).ReplaceAllString(block, "") + "\n"
	}
	files, err := render(t, values)
	if err != nil {
		t.Fatalf("%v\n%s", err, values)
	}
	all := decode(t, files)
	all.check(t)
	for _, object := range []string{"Ingress hooks", "ServiceMonitor hooks", "PrometheusRule hooks", "ConfigMap hooks-dashboard"} {
		if all[object] == nil {
			t.Errorf("the values of the page make no %s", object)
		}
	}
}

func TestChartHasTheDashboard(t *testing.T) {
	t.Parallel()
	files, err := render(t, `{store: sqlite, dashboard: {enabled: true}}`)
	if err != nil {
		t.Fatal(err)
	}
	made, ok := decode(t, files)["ConfigMap hooks-dashboard"].(*corev1.ConfigMap)
	if !ok || made.Data["postrider.json"] != string(readFile(t, dashboardFile)) || !json.Valid([]byte(made.Data["postrider.json"])) {
		t.Errorf("the ConfigMap of the dashboard is %v", made)
	}
	if made.Labels["grafana_dashboard"] != "1" {
		t.Errorf("Grafana's sidecar does not find %v", made.Labels)
	}
}
