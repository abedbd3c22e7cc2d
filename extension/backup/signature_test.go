package backup

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// checkSignature is the store's side of AWS Signature Version 4, written from its description and without the library
// that signs. It returns an error code, or "" if the signature is right.
func checkSignature(r *http.Request, accessKey, secret, region string, now time.Time) (code string) {
	fields, is := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	if !is {
		return "AccessDenied"
	}
	given := map[string]string{}
	for field := range strings.SplitSeq(fields, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		given[name] = value
	}
	date := r.Header.Get("X-Amz-Date")
	at, err := time.Parse("20060102T150405Z", date)
	if err != nil || now.Sub(at).Abs() > 15*time.Minute {
		return "RequestTimeTooSkewed"
	}
	scope := date[:8] + "/" + region + "/s3/aws4_request"
	if given["Credential"] != accessKey+"/"+scope {
		return "InvalidAccessKeyId"
	}
	signed := strings.Split(given["SignedHeaders"], ";")
	for _, needed := range []string{"host", "x-amz-content-sha256", "x-amz-date"} {
		if !slices.Contains(signed, needed) {
			return "AccessDenied"
		}
	}
	var canonical strings.Builder
	fmt.Fprintf(&canonical, "%s\n%s\n%s\n", r.Method, r.URL.EscapedPath(),
		strings.ReplaceAll(r.URL.Query().Encode(), "+", "%20"))
	for _, name := range signed {
		value := strings.Join(r.Header.Values(name), ",")
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = fmt.Sprint(r.ContentLength)
		}
		fmt.Fprintf(&canonical, "%s:%s\n", name, strings.TrimSpace(value))
	}
	fmt.Fprintf(&canonical, "\n%s\n%s", given["SignedHeaders"], r.Header.Get("X-Amz-Content-Sha256"))
	sum := sha256.Sum256([]byte(canonical.String()))
	text := "AWS4-HMAC-SHA256\n" + date + "\n" + scope + "\n" + hex.EncodeToString(sum[:])
	key := []byte("AWS4" + secret)
	for _, part := range append(strings.Split(scope, "/"), text) {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	if !hmac.Equal([]byte(hex.EncodeToString(key)), []byte(given["Signature"])) {
		return "SignatureDoesNotMatch"
	}
	return ""
}

// checkSignature itself is right: it accepts the example in the description of the signature, and rejects every
// variation of the example.
func TestCheckSignature(t *testing.T) {
	now := time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   string
	}{
		"the example":    {func(*http.Request) {}, ""},
		"another method": {func(r *http.Request) { r.Method = http.MethodDelete }, "SignatureDoesNotMatch"},
		"another object": {func(r *http.Request) { r.URL.Path = "/other.txt" }, "SignatureDoesNotMatch"},
		"another query":  {func(r *http.Request) { r.URL.RawQuery = "acl=" }, "SignatureDoesNotMatch"},
		"another host":   {func(r *http.Request) { r.Host = "example.org" }, "SignatureDoesNotMatch"},
		"another header": {func(r *http.Request) { r.Header.Set("Range", "bytes=0-10") }, "SignatureDoesNotMatch"},
		"another body": {func(r *http.Request) { r.Header.Set("X-Amz-Content-Sha256", strings.Repeat("0", 64)) },
			"SignatureDoesNotMatch"},
		"a time long ago": {func(r *http.Request) { r.Header.Set("X-Amz-Date", "20130523T000000Z") },
			"RequestTimeTooSkewed"},
		"no authorization header": {func(r *http.Request) { r.Header.Del("Authorization") }, "AccessDenied"},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet,
				"https://examplebucket.s3.amazonaws.com/test.txt", nil)
			for name, value := range map[string]string{
				"Range": "bytes=0-9", "X-Amz-Content-Sha256": emptySum, "X-Amz-Date": "20130524T000000Z",
				"Authorization": "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request," +
					"SignedHeaders=host;range;x-amz-content-sha256;x-amz-date," +
					"Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
			} {
				r.Header.Set(name, value)
			}
			c.change(r)
			if got := checkSignature(r, "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "us-east-1",
				now); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
