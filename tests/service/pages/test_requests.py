"""The request pages: followed to the end, and cancelled."""

from tests.service.pages.conftest import ANN, forget, found


def test_a_request_is_watched_to_its_end_and_proved(service, visit):
    me = visit()
    place = forget(me, "sample", ANN).headers["location"]
    assert "Cancel the request" in me.get(place).text
    assert me.get(place.replace("requests", "proof")).status_code == 409
    service.work()
    events = me.get(f"{place}/events").text
    names = [line.removeprefix("event: ") for line in events.splitlines() if line.startswith("event: ")]
    assert names == ["received", "instant", "erasing", "retraining", "verified", "done"]
    proof = place.replace("requests", "proof")
    assert "byte for byte" in me.get(proof).text
    verified = me.post(f"{proof}/verify", follow_redirects=True)
    assert "Genuine" in verified.text and "Genuine" in me.get(str(verified.url)).text
    assert "already forgotten" in found(me, "sample", ANN).text


def test_a_request_can_be_taken_back(service, visit):
    me = visit()
    place = forget(me, "sample", ANN).headers["location"]
    me.get(place)
    assert me.post(f"{place}/cancel").status_code == 303
    assert 'data-state="cancelled"' in me.get(place).text
