package step

// Obstacle is what keeps an object from going on: the reason and the message of a condition.
type Obstacle struct {
	// Reason is a CamelCase word of package api, Message a sentence with the next action.
	Reason, Message string
	// Brief marks what usually takes a moment only. It is not written down while the object is Fresh.
	Brief bool
}
