package failure

import (
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxText is the longest error text in a condition, in bytes. Together with the next action it also fits into an Event.
const maxText = 800

// secrets match credentials that an error may repeat. Our own errors name Secrets but never include their content;
// errors of webhooks, suppliers and balancers are beyond our control.
var secrets = []*regexp.Regexp{
	regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*-----.*?(-----END [A-Z0-9 ]*-----|$)`),
	regexp.MustCompile(`(?i)\b(bearer|basic) +[A-Za-z0-9._~+/=-]{8,}`),
	regexp.MustCompile(`\beyJ[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)*`),                           // a JSON web token
	regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`),                                    // a token of kubeadm
	regexp.MustCompile(`(?i)\b(password|passwd|secret|token)["']? ?[=:] ?["']?[^\s"',;]+`), // key and value
	regexp.MustCompile(`://[^\s/@]+:[^\s/@]+@`),                                            // user and password of a URL
}

// Text returns the text of an error for a condition: one line of bounded length, without credentials.
func Text(err error) string {
	text := err.Error()
	for _, s := range secrets {
		text = s.ReplaceAllString(text, "[removed]")
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(text) <= maxText {
		return text
	}
	const mark = "…"
	return strings.ToValidUTF8(text[:maxText-len(mark)], "") + mark
}

// Same returns the condition's present message if the new one differs only in numbers, and the new message otherwise.
// This keeps each pass from rewriting a message that contains an error text.
func Same(has *metav1.Condition, reason, message string) string {
	if has != nil && alike(has, &metav1.Condition{Reason: reason, Message: message}) {
		return has.Message
	}
	return message
}

// varying matches what may differ between two texts of the same error: numbers, ports, hashes and uids.
var varying = regexp.MustCompile(`\b[0-9a-fA-F-]*[0-9][0-9a-zA-Z.:-]*`)

// alike reports whether two conditions are the same except for numbers.
func alike(a, b *metav1.Condition) bool {
	plain := func(c *metav1.Condition) string { return varying.ReplaceAllString(c.Message, "#") }
	return a.Reason == b.Reason && plain(a) == plain(b)
}
