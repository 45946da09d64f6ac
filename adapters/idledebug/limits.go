package idledebug

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A setting is a field of a policy: a *time.Duration, an *int or a *bool.
type setting struct {
	name string
	of   func(p *idle.Policy) any
}

var settings = []setting{
	{"IdleTimeout", func(p *idle.Policy) any { return &p.IdleTimeout }},
	{"ReadTimeout", func(p *idle.Policy) any { return &p.ReadTimeout }},
	{"ReadTotal", func(p *idle.Policy) any { return &p.ReadTotal }},
	{"WriteTimeout", func(p *idle.Policy) any { return &p.WriteTimeout }},
	{"PhaseTimeout", func(p *idle.Policy) any { return &p.PhaseTimeout }},
	{"MaxAge", func(p *idle.Policy) any { return &p.MaxAge }},
	{"MaxAgeJitter", func(p *idle.Policy) any { return &p.MaxAgeJitter }},
	{"MaxAgeGrace", func(p *idle.Policy) any { return &p.MaxAgeGrace }},
	{"Heartbeat.Interval", func(p *idle.Policy) any { return &p.Heartbeat.Interval }},
	{"Heartbeat.Timeout", func(p *idle.Policy) any { return &p.Heartbeat.Timeout }},
	{"Heartbeat.Misses", func(p *idle.Policy) any { return &p.Heartbeat.Misses }},
	{"Heartbeat.Passive", func(p *idle.Policy) any { return &p.Heartbeat.Passive }},
	{"Heartbeat.Jitter", func(p *idle.Policy) any { return &p.Heartbeat.Jitter }},
	{"Heartbeat.CountsAsUse", func(p *idle.Policy) any { return &p.Heartbeat.CountsAsUse }},
	{"MinReadRate.BytesPerSecond", func(p *idle.Policy) any { return &p.MinReadRate.BytesPerSecond }},
	{"MinReadRate.Grace", func(p *idle.Policy) any { return &p.MinReadRate.Grace }},
	{"MinWriteRate.BytesPerSecond", func(p *idle.Policy) any { return &p.MinWriteRate.BytesPerSecond }},
	{"MinWriteRate.Grace", func(p *idle.Policy) any { return &p.MinWriteRate.Grace }},
	{"Handshake", func(p *idle.Policy) any { return &p.Handshake }},
	{"NoInterrupt", func(p *idle.Policy) any { return &p.NoInterrupt }},
}

func settingNames() []string {
	names := make([]string, len(settings))
	for i, s := range settings {
		names[i] = s.name
	}
	return names
}

// limit is the JSON of a field of a policy that is set. Its value is a text as people
// write it.
type limit struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// limitsOf returns the fields of p that are set.
func limitsOf(p idle.Policy) []limit {
	set := []limit{}
	for _, s := range settings {
		switch v := s.of(&p).(type) {
		case *time.Duration:
			if *v != 0 {
				set = append(set, limit{s.name, v.String()})
			}
		case *int:
			if *v != 0 {
				set = append(set, limit{s.name, strconv.Itoa(*v)})
			}
		case *bool:
			if *v {
				set = append(set, limit{s.name, "true"})
			}
		}
	}
	return set
}

// setLimits sets fields of p by name. An empty value is the zero one.
func setLimits(p *idle.Policy, to map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(to)) {
		i := slices.IndexFunc(settings, func(s setting) bool { return s.name == name })
		if i < 0 {
			return invalid("limits", name, "a field of idle.Policy, such as IdleTimeout or Heartbeat.Interval")
		}
		if err := parse(settings[i].of(p), name, to[name]); err != nil {
			return err
		}
	}
	return nil
}

// parse sets a field.
func parse(field any, name, text string) (err error) {
	switch v := field.(type) {
	case *time.Duration:
		if *v = 0; text != "" {
			*v, err = duration(name, text, ", or empty for none")
		}
		return err
	case *int:
		if *v = 0; text != "" {
			*v, err = strconv.Atoi(text)
		}
		if err != nil {
			return invalid(name, text, "a whole number, or empty for none")
		}
	case *bool:
		if *v = false; text != "" {
			*v, err = strconv.ParseBool(text)
		}
		if err != nil {
			return invalid(name, text, "true or false")
		}
	default:
		return fmt.Errorf("idledebug: %s has no known type", name)
	}
	return nil
}
