package enrolment

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"regexp"
	"strings"
)

// credentialText matches a credential: a prefix, its public id and its secret.
var credentialText = regexp.MustCompile(`^capstan1[.]([a-z2-7]{10})[.]([a-z2-7]{26})$`)

// NewCredential returns the text of a new credential, with 130 random bits, and its id, which is not secret.
func NewCredential() (text, id string) {
	id = strings.ToLower(rand.Text()[:10])
	return "capstan1." + id + "." + strings.ToLower(rand.Text()), id
}

// ParseCredential returns the id of a credential and a hash of the whole text. The error does not quote the text.
func ParseCredential(text string) (id, hash string, err error) {
	parts := credentialText.FindStringSubmatch(text)
	if parts == nil {
		return "", "", errors.New("this is not an enrolment credential: make one with capstan host token create")
	}
	sum := sha256.Sum256([]byte(text))
	return parts[1], hex.EncodeToString(sum[:]), nil
}
