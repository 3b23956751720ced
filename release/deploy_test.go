package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/internal/config"
)

// composeFile is the part of a compose file that the test checks.
type composeFile struct {
	Services map[string]struct {
		Image       string
		Environment map[string]string
		Ports       []string
		DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
		Healthcheck struct{ Test []string }
		Profiles    []string
		StopGrace   string `yaml:"stop_grace_period"`
		ReadOnly    bool   `yaml:"read_only"`
		Volumes     []string
	}
	Volumes map[string]any
}

// TestComposeFile checks the assumptions of the file: settings that exist, volumes that are
// declared, a password that both sides have, and nodes that wait for a healthy database.
func TestComposeFile(t *testing.T) {
	t.Parallel()
	var file composeFile
	if err := yaml.Unmarshal(readFile(t, "../deploy/compose.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	var settings []string
	for _, s := range (config.Config{}).Settings() {
		settings = append(settings, "POSTRIDER_"+strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_")))
	}
	database, ok := file.Services["database"]
	if !ok || !strings.Contains(strings.Join(database.Healthcheck.Test, " "), "-U "+database.Environment["POSTGRES_USER"]) {
		t.Fatalf("the database is %+v", database)
	}
	nodes, ports := 0, map[string]bool{}
	for name, service := range file.Services {
		if name == "database" || slices.Equal(service.Profiles, []string{"monitoring"}) {
			checkVolumes(t, name, service.Volumes, keys(file.Volumes))
			continue
		}
		nodes++
		if !strings.HasPrefix(service.Image, imageName+":${VERSION:?") || !service.ReadOnly || service.StopGrace != "45s" {
			t.Errorf("%s: %+v", name, service)
		}
		if want := []string{"CMD", "/usr/bin/postrider", "ready"}; !slices.Equal(service.Healthcheck.Test, want) {
			t.Errorf("%s: the health check is %v, want %v", name, service.Healthcheck.Test, want)
		}
		if service.DependsOn["database"].Condition != "service_healthy" {
			t.Errorf("%s depends on %v", name, service.DependsOn)
		}
		for variable := range service.Environment {
			if !slices.Contains(settings, variable) {
				t.Errorf("%s: %s is no setting", name, variable)
			}
		}
		url := service.Environment["POSTRIDER_DATABASE_URL"]
		if !strings.Contains(url, database.Environment["POSTGRES_USER"]+":"+database.Environment["POSTGRES_PASSWORD"]+"@database/") {
			t.Errorf("%s: %s is not the database's", name, url)
		}
		for _, port := range service.Ports {
			if ports[port] || !regexp.MustCompile(`^127\.0\.0\.1:\d+:8080$`).MatchString(port) {
				t.Errorf("%s: port %s is taken, or for everybody", name, port)
			}
			ports[port] = true
		}
	}
	if nodes != 3 || len(ports) != 3 {
		t.Errorf("%d nodes and %d ports, want 3", nodes, len(ports))
	}
}

// checkVolumes checks that the volumes of a service are declared, or are files of the repository.
func checkVolumes(t *testing.T, service string, volumes, declared []string) {
	t.Helper()
	for _, volume := range volumes {
		volume, _, _ = strings.Cut(volume, ":")
		if _, err := os.Stat("../deploy/" + volume); !slices.Contains(declared, volume) && (!strings.HasPrefix(volume, "./") || err != nil) {
			t.Errorf("%s: the volume %s is not declared, and no file: %v", service, volume, err)
		}
	}
}

func keys(m map[string]any) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	return names
}
