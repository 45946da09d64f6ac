package idledebug

import (
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/idlewheel/idlewheel/idle"
)

// pace is the part of a body that drain and shed have in common.
type pace struct {
	duration, closeDelay, forceAfter string
	rate                             float64
}

// fields are those of p and others.
func (p *pace) fields(others fields) fields {
	all := fields{"duration": &p.duration, "rate": &p.rate, "close_delay": &p.closeDelay, "force_after": &p.forceAfter}
	maps.Copy(all, others)
	return all
}

// drain begins a drain.
func (h *Handler) drain(w http.ResponseWriter, r *http.Request) error {
	_, l, err := h.look(r)
	if err != nil {
		return err
	}
	var in pace
	var now bool
	if err := body(w, r, in.fields(fields{"now": &now})); err != nil {
		return err
	}
	var d durations
	drain := idle.Drain{Duration: d.parse("duration", in.duration), Rate: in.rate, CloseDelay: d.parse("close_delay", in.closeDelay), ForceAfter: d.parse("force_after", in.forceAfter)}
	gentle := drain.Duration != 0 || drain.Rate != 0
	switch {
	case d.err != nil:
		return d.err
	case !now && !gentle:
		return errors.New("none of duration, rate and now is set; to end all connections at once, set now to true")
	case now && gentle:
		return errors.New("now is set as well as duration or rate; set only one of duration, rate and now")
	}
	op, err := l.tracker.Drain(drain)
	if err != nil {
		return err
	}
	return answer(w, map[string]operation{"operation": l.ops.add(op)})
}

// maxCause is how long a cause may be, because Stats counts by it.
const maxCause = 100

// shed begins a shed.
func (h *Handler) shed(w http.ResponseWriter, r *http.Request) error {
	_, l, err := h.look(r)
	if err != nil {
		return err
	}
	var in pace
	var shed idle.Shed
	var idleFor, age string
	var phase *string
	err = body(w, r, in.fields(fields{
		"idle": &idleFor, "age": &age, "phase": &phase, "fraction": &shed.Fraction, "max": &shed.Max, "cause": &shed.Cause,
	}))
	if err != nil {
		return err
	}
	var d durations
	shed.Idle, shed.Age = d.parse("idle", idleFor), d.parse("age", age)
	shed.Duration, shed.Rate, shed.CloseDelay, shed.ForceAfter = d.parse("duration", in.duration), in.rate, d.parse("close_delay", in.closeDelay), d.parse("force_after", in.forceAfter)
	if phase != nil {
		if shed.Phase, err = l.named(*phase); err != nil {
			return err
		}
	}
	switch {
	case d.err != nil:
		return d.err
	case len(shed.Cause) > maxCause:
		return invalid("cause", shed.Cause, fmt.Sprintf("of at most %d bytes", maxCause))
	case shed.Max == 0 && shed.Fraction == 0 && shed.Idle == 0 && shed.Age == 0 && shed.Phase == nil:
		return errors.New("none of idle, age, phase, fraction and max is set, so all connections would be ended; to end all, drain")
	}
	op, err := l.tracker.Shed(shed)
	if err != nil {
		return err
	}
	return answer(w, map[string]operation{"operation": l.ops.add(op)})
}

// operation pauses, resumes or cancels an operation.
func (h *Handler) operation(w http.ResponseWriter, r *http.Request) error {
	_, l, err := h.look(r)
	if err != nil {
		return err
	}
	var id, do string
	if err := body(w, r, fields{"id": &id, "do": &do}); err != nil {
		return err
	}
	op := l.ops.find(id)
	if op == nil {
		return &refusal{http.StatusNotFound, fmt.Sprintf("id is %q; no operation of this tracker with this id is under way", id)}
	}
	switch do {
	case "pause":
		op.Pause()
	case "resume":
		op.Resume()
	case "cancel":
		op.Cancel()
	default:
		return invalid("do", do, `"pause", "resume" or "cancel"`)
	}
	return answer(w, map[string]bool{"done": true})
}

// end ends a connection that was listed.
func (h *Handler) end(w http.ResponseWriter, r *http.Request) error {
	_, l, err := h.look(r)
	if err != nil {
		return err
	}
	id, cause := "", "by hand"
	if err := body(w, r, fields{"id": &id, "cause": &cause}); err != nil {
		return err
	}
	if len(cause) > maxCause {
		return invalid("cause", cause, fmt.Sprintf("of at most %d bytes", maxCause))
	}
	i, err := l.listed.take(id)
	if err != nil {
		return err
	}
	i.End(cause)
	return answer(w, map[string]bool{"done": true})
}

// limits changes limits of a phase.
func (h *Handler) limits(w http.ResponseWriter, r *http.Request) error {
	_, l, err := h.look(r)
	if err != nil {
		return err
	}
	var name *string
	var limits map[string]string
	if err := body(w, r, fields{"phase": &name, "limits": &limits}); err != nil {
		return err
	}
	if name == nil || len(limits) == 0 {
		return errors.New("phase or limits is missing; say which limits of which phase are to change")
	}
	phase, err := l.named(*name)
	if err != nil {
		return err
	}
	l.changing.Lock() // between reading the policy and replacing it
	defer l.changing.Unlock()
	p := l.follows().Rest(phase)
	if err := setLimits(&p, limits); err != nil {
		return err
	}
	initial := phase == l.tracker.Initial()
	if initial {
		err = l.tracker.SetPolicy(p)
	} else {
		err = phase.SetPolicy(p)
	}
	if err != nil {
		return err
	}
	return answer(w, map[string]any{
		"changed": changed{Phases: 1, Name: *name, Initial: initial, Several: l.isSeveral(*name)},
		"limits":  limitsOf(l.follows().Rest(phase)),
	})
}

// changed says what api/limits has changed. Several says that censuses have met more than one
// phase with the name. The others don't change. If Several is false, there may still be others,
// because a census reports only one phase per name.
type changed struct {
	Phases  int    `json:"phases"`
	Name    string `json:"name"`
	Initial bool   `json:"initial"`
	Several bool   `json:"several"`
}

// named returns a phase by its name.
func (l *look) named(name string) (*idle.Phase, error) {
	p := l.phase(name)
	if p == nil {
		return nil, invalid("phase", name, "the name of a phase that api/state lists")
	}
	return p, nil
}
