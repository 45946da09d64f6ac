package idledebug

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"time"
)

// maxBody is how long the body of a POST may be.
const maxBody = 64 << 10

// fields are the fields that a body may have: by name, a pointer to the variable for the value.
// Fields that are left out, or null, don't change their variable.
type fields map[string]any

// body reads the body of a POST. An unknown or repeated field is an error, and names are
// case-sensitive, because a misspelt condition would otherwise be ignored.
func body(w http.ResponseWriter, r *http.Request, to fields) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	switch begin, err := d.Token(); {
	case err != nil:
		return noObject(err)
	case begin != json.Delim('{'):
		return malformed("the body must be a JSON object, such as {}")
	}
	seen := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return noObject(err)
		}
		name := fmt.Sprint(key)
		field, known := to[name]
		switch {
		case !known:
			return malformed(fmt.Sprintf("the body has an unknown field %q; it must be one of %s", name, quoteAll(slices.Sorted(maps.Keys(to)))))
		case seen[name]:
			return malformed(name + " is there twice")
		}
		seen[name] = true
		var text json.RawMessage
		if err := d.Decode(&text); err != nil {
			return noObject(err)
		}
		if json.Unmarshal(text, field) != nil {
			return invalid(name, brief(text), kindOf(field))
		}
	}
	if _, err := d.Token(); err != nil {
		return noObject(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return malformed("the body has more than one JSON object")
	}
	return nil
}

func malformed(text string) error { return &refusal{http.StatusBadRequest, text} }

func noObject(err error) error {
	return malformed(fmt.Sprintf("the body must be a JSON object: %v", err))
}

// brief is a JSON value as errors show it.
type brief []byte

const maxBrief = 100

func (b brief) String() string {
	if len(b) > maxBrief {
		return string(b[:maxBrief]) + "..."
	}
	return string(b)
}

// kindOf says what a field must be.
func kindOf(field any) string {
	switch field.(type) {
	case *float64:
		return "a number"
	case *int:
		return "a whole number"
	case *bool:
		return "true or false"
	case *map[string]string:
		return `an object of texts, such as {"IdleTimeout": "30s"}`
	}
	return "a text"
}

// durations parses fields of a body. The empty text is 0.
type durations struct{ err error }

func (d *durations) parse(name, text string) time.Duration {
	if text == "" || d.err != nil {
		return 0
	}
	v, err := duration(name, text, "")
	d.err = err
	return v
}

var digits = regexp.MustCompile("[0-9]+")

// duration parses a duration. The error adds what else the text may be.
func duration(name, text, or string) (time.Duration, error) {
	v, err := time.ParseDuration(text)
	if err == nil {
		return v, nil
	}
	if _, err := time.ParseDuration(digits.ReplaceAllString(text, "1")); err == nil { // only its numbers are wrong
		return 0, invalid(name, text, "at most 2562047h, some 292 years")
	}
	return 0, invalid(name, text, "a duration such as 90s or 1m30s"+or)
}
