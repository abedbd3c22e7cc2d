package step

// Obstacle says why an object can't proceed: the reason and the message of a condition.
type Obstacle struct {
	// Reason is one of the reasons in package api. Message is a sentence that includes the next action.
	Reason, Message string
	// Brief marks an obstacle that usually goes away within moments. The status does not report it while the object is
	// Fresh.
	Brief bool
}
