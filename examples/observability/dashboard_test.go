package observability

import (
	"bytes"
	"maps"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestConfiguration: prometheus.yaml loads the rules, and takes histograms of both kinds.
func TestConfiguration(t *testing.T) {
	var c struct {
		Global struct {
			Interval   string `yaml:"scrape_interval"`
			Evaluation string `yaml:"evaluation_interval"`
			Native     bool   `yaml:"scrape_native_histograms"`
			Classic    bool   `yaml:"always_scrape_classic_histograms"`
		}
		Rules  []string `yaml:"rule_files"`
		Scrape []struct {
			Job    string                       `yaml:"job_name"`
			Static []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	d := yaml.NewDecoder(bytes.NewReader(readFile(t, "prometheus.yaml")))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil {
		t.Fatal(err)
	}
	if !c.Global.Native || !c.Global.Classic {
		t.Errorf("%+v", c)
	}
	targets := map[string]int{}
	for _, s := range c.Scrape {
		for _, static := range s.Static {
			targets[s.Job] += len(static.Targets)
		}
	}
	if want := map[string]int{"idlewheel": 1, "fleet": 3}; !maps.Equal(targets, want) {
		t.Errorf("the jobs have so many targets: %v, want %v", targets, want)
	}
	for _, file := range c.Rules {
		readFile(t, file)
	}
}
