package step

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFresh(t *testing.T) {
	now := time.Now()
	for age, want := range map[time.Duration]bool{0: true, Settle - 1: true, Settle: false, time.Hour: false, -1: false} {
		o := &metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-age))}
		if got := Fresh(o, now); got != want {
			t.Errorf("an object of age %v is fresh: %t, want %t", age, got, want)
		}
	}
}
