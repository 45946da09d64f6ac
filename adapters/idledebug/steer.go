package idledebug

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/idlewheel/idlewheel/idle"
)

// pace is the part of a body that drain and shed have in common.
type pace struct {
	Over  string  `json:"over"`
	Rate  float64 `json:"rate"`
	Grace string  `json:"grace"`
	Stop  string  `json:"stop"`
}

// drain begins a drain.
func (h *Handler) drain(w http.ResponseWriter, r *http.Request) error {
	_, l, err := h.look(r)
	if err != nil {
		return err
	}
	var in pace
	if err := body(w, r, &in); err != nil {
		return err
	}
	var d durations
	drain := idle.Drain{Over: d.parse("over", in.Over), Rate: in.Rate, Grace: d.parse("grace", in.Grace), Stop: d.parse("stop", in.Stop)}
	if d.err != nil {
		return d.err
	}
	op, err := l.tracker.Drain(drain)
	if err != nil {
		return err
	}
	return answer(w, map[string]operation{"operation": l.ops.add(op)})
}

// maxCause is how long a cause may be, as Stats counts by it.
const maxCause = 100

// shed begins a shed.
func (h *Handler) shed(w http.ResponseWriter, r *http.Request) error {
	_, l, err := h.look(r)
	if err != nil {
		return err
	}
	var in struct {
		pace
		Idle  string  `json:"idle"`
		Age   string  `json:"age"`
		Phase *string `json:"phase"`
		Share float64 `json:"share"`
		Most  int     `json:"most"`
		Cause string  `json:"cause"`
	}
	if err := body(w, r, &in); err != nil {
		return err
	}
	var d durations
	shed := idle.Shed{
		Most: in.Most, Share: in.Share, Idle: d.parse("idle", in.Idle), Age: d.parse("age", in.Age), Cause: in.Cause,
		Over: d.parse("over", in.Over), Rate: in.Rate, Grace: d.parse("grace", in.Grace), Stop: d.parse("stop", in.Stop),
	}
	if in.Phase != nil {
		if shed.Phase, err = l.named(*in.Phase); err != nil {
			return err
		}
	}
	switch {
	case d.err != nil:
		return d.err
	case len(in.Cause) > maxCause:
		return invalid("cause", in.Cause, fmt.Sprintf("of at most %d bytes", maxCause))
	case in.Most == 0 && in.Share == 0 && shed.Idle == 0 && shed.Age == 0 && shed.Phase == nil:
		return errors.New("none of idle, age, phase, share and most is set, so all connections would be ended; to end all, drain")
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
	var in struct {
		ID string `json:"id"`
		Do string `json:"do"`
	}
	if err := body(w, r, &in); err != nil {
		return err
	}
	op := l.ops.find(in.ID)
	if op == nil {
		return &refusal{http.StatusNotFound, fmt.Sprintf("id is %q; no operation of this tracker with this id is under way", in.ID)}
	}
	switch in.Do {
	case "pause":
		op.Pause()
	case "resume":
		op.Resume()
	case "cancel":
		op.Cancel()
	default:
		return invalid("do", in.Do, `"pause", "resume" or "cancel"`)
	}
	return answer(w, map[string]bool{"done": true})
}

// end ends a connection that was listed.
func (h *Handler) end(w http.ResponseWriter, r *http.Request) error {
	_, l, err := h.look(r)
	if err != nil {
		return err
	}
	in := struct {
		ID    string `json:"id"`
		Cause string `json:"cause"`
	}{Cause: "by hand"}
	if err := body(w, r, &in); err != nil {
		return err
	}
	if len(in.Cause) > maxCause {
		return invalid("cause", in.Cause, fmt.Sprintf("of at most %d bytes", maxCause))
	}
	i, err := l.listed.find(in.ID)
	if err != nil {
		return err
	}
	i.End(in.Cause)
	return answer(w, map[string]bool{"done": true})
}

// limits changes limits of a phase.
func (h *Handler) limits(w http.ResponseWriter, r *http.Request) error {
	_, l, err := h.look(r)
	if err != nil {
		return err
	}
	var in struct {
		Phase  *string           `json:"phase"`
		Limits map[string]string `json:"limits"`
	}
	if err := body(w, r, &in); err != nil {
		return err
	}
	if in.Phase == nil || len(in.Limits) == 0 {
		return errors.New("phase or limits is missing; say which limits of which phase are to change")
	}
	phase, err := l.named(*in.Phase)
	if err != nil {
		return err
	}
	l.changing.Lock() // between reading the policy and replacing it
	defer l.changing.Unlock()
	p := phase.Policy()
	if err := setLimits(&p, in.Limits); err != nil {
		return err
	}
	if phase == l.tracker.Initial() {
		err = l.tracker.SetPolicy(p)
	} else {
		err = l.tracker.Replace(phase, p)
	}
	if err != nil {
		return err
	}
	return answer(w, map[string][]limit{"limits": limitsOf(phase.Policy())})
}

// named returns a phase by its name.
func (l *look) named(name string) (*idle.Phase, error) {
	p := l.phase(name)
	if p == nil {
		return nil, invalid("phase", name, "the name of a phase that api/state lists")
	}
	return p, nil
}
