package idledebug

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/idlewheel/idlewheel/idle"
)

// A refusal is an error with the status of the answer.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

// invalid returns the refusal of a parameter.
func invalid(name string, value any, want string) error {
	if text, ok := value.(string); ok {
		value = strconv.Quote(text)
	}
	return &refusal{http.StatusBadRequest, fmt.Sprintf("%s is %v; it must be %s", name, value, want)}
}

func quoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = strconv.Quote(n)
	}
	return strings.Join(quoted, ", ")
}

// answer writes v as JSON. It returns only errors that come before the answer has begun: if the
// client is gone, nobody could read it.
func answer(w http.ResponseWriter, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(text)
	return nil
}

// answerError writes err as JSON.
func answerError(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable // there is no census
	var no *refusal
	switch {
	case errors.As(err, &no):
		status = no.status
	case errors.Is(err, idle.ErrClosed):
		status = http.StatusConflict
	}
	text, _ := json.Marshal(map[string]string{"error": err.Error()})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(text)
}

// whole returns the value of a parameter that is a whole number.
func whole(q url.Values, name string, otherwise, least, most int) (int, error) {
	text := q.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, invalid(name, text, fmt.Sprintf("a whole number from %d to %d", least, most))
	}
	return n, nil
}
