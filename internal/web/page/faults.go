package page

import (
	"errors"
	"net/http"

	"github.com/postrider/postrider/client"
)

// Faulty returns why the API refused the form, by field, in the language of the person. The field
// "" has the reason for the form as a whole. The handler then shows the form again, with the
// values that the person typed. Nil: the API did not refuse the form.
func (v *Visit) Faulty(err error) map[string]string {
	problem, ok := errors.AsType[*client.Error](err)
	if !ok {
		return nil
	}
	faults := map[string]string{}
	switch problem.Status {
	case http.StatusUnprocessableEntity:
		for _, f := range problem.Fields {
			faults[f.Field] = v.Text.Reason(f)
		}
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusRequestEntityTooLarge:
	default:
		return nil
	}
	if len(faults) == 0 {
		faults[""] = v.Text.Detail(problem)
	}
	return faults
}

// AnyFault returns one of the reasons why a form was refused.
func AnyFault(faults map[string]string) string {
	for _, reason := range faults {
		return reason
	}
	return ""
}
