package failure

import (
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxText is the longest text of an error in a condition, in bytes. With the next action it fits into an event too.
const maxText = 800

// secrets match what an error may repeat of a credential. Errors of ours name Secrets and hold none; those of webhooks,
// suppliers and balancers are somebody else's.
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

// Same returns the message that a condition has if the new one differs from it in numbers only, and the new one
// otherwise. It keeps a message with the text of an error from being written anew by each pass.
func Same(has *metav1.Condition, reason, message string) string {
	if has != nil && alike(has, &metav1.Condition{Reason: reason, Message: message}) {
		return has.Message
	}
	return message
}

// varying matches what differs between two texts of one error: numbers, ports, hashes and uids.
var varying = regexp.MustCompile(`\b[0-9a-fA-F-]*[0-9][0-9a-zA-Z.:-]*`)

// alike reports whether two conditions say the same, but for numbers.
func alike(a, b *metav1.Condition) bool {
	plain := func(c *metav1.Condition) string { return varying.ReplaceAllString(c.Message, "#") }
	return a.Reason == b.Reason && plain(a) == plain(b)
}
