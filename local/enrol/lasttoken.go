package enrol

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// lastToken is the content of a token of a host's account. In normal operation the API server validates tokens and
// rejects expired ones; only the code here reads a token after it has expired.
type lastToken struct {
	namespace, host string
	// secret and secretUID identify the epoch's Secret, to which the token is bound.
	secret    string
	secretUID types.UID
	ends      time.Time
}

// errToken is the only error about a token that this plane did not issue to a host; it gives no details.
var errToken = errors.New("this plane has not issued this token to a host")

// readToken verifies the signature of a token and returns the token's content. It does not check expiry. The key
// determines the algorithm; the one that the token names is ignored. Pure.
func readToken(text string, keys []any) (lastToken, error) {
	signed, signature, ok := cutLast(text)
	_, payload, two := strings.Cut(signed, ".")
	if !ok || !two || !signedByOne(signed, signature, keys) {
		return lastToken{}, errToken
	}
	var claims struct {
		Subject string `json:"sub"`
		Expires int64  `json:"exp"`
		Bound   struct {
			Namespace string `json:"namespace"`
			Secret    struct {
				Name string    `json:"name"`
				UID  types.UID `json:"uid"`
			} `json:"secret"`
		} `json:"kubernetes.io"`
	}
	data, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil || json.Unmarshal(data, &claims) != nil {
		return lastToken{}, errToken
	}
	bound := claims.Bound
	host, ok := strings.CutPrefix(
		claims.Subject, "system:serviceaccount:"+bound.Namespace+":"+infrav1.IdentityPrefix,
	)
	if !ok || host == "" || bound.Namespace == "" || bound.Secret.Name == "" || bound.Secret.UID == "" ||
		claims.Expires <= 0 {
		return lastToken{}, errToken
	}
	return lastToken{namespace: bound.Namespace, host: host, secret: bound.Secret.Name,
		secretUID: bound.Secret.UID, ends: time.Unix(claims.Expires, 0)}, nil
}

// cutLast splits a token into the signed part and the signature.
func cutLast(text string) (signed string, signature []byte, ok bool) {
	at := strings.LastIndexByte(text, '.')
	if at < 0 {
		return "", nil, false
	}
	signature, err := base64.RawURLEncoding.DecodeString(text[at+1:])
	return text[:at], signature, err == nil
}

// signedByOne reports whether one of the keys signed the text with ES256, the algorithm that planes sign tokens with.
func signedByOne(signed string, signature []byte, keys []any) bool {
	sum := sha256.Sum256([]byte(signed))
	for _, key := range keys {
		key, ok := key.(*ecdsa.PublicKey)
		if ok && key.Curve.Params().BitSize == 256 && len(signature) == 64 && ecdsa.Verify(key, sum[:],
			new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])) {
			return true
		}
	}
	return false
}
