"""Who is asking, and whether that role may: every route names the roles that it lets in.

These are looked up on the event loop: a statement by primary key takes less than handing it to a thread.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from shardgraph.service.office import Office
from shardgraph.service.tokens import AUDITOR, CONSUMER, LOCAL, OPERATOR, OWNER, Caller, any_token, caller_of

bearer = HTTPBearer(auto_error=False, description="`Authorization: Bearer sg.NAME.SECRET`, made by `shardgraph token`")


async def the_office(request: Request) -> Office:
    """The office of this service."""
    return request.app.state.office


TheOffice = Annotated[Office, Depends(the_office)]


async def caller(
    request: Request, office: TheOffice, token: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> Caller:
    """Who asks; without tokens in the workspace, whoever reaches the service."""
    catalogue = office.reader.catalogue
    found = caller_of(catalogue, token.credentials) if token else None
    if found is None and token is None and not any_token(catalogue):
        found = LOCAL
    if found is None:
        raise HTTPException(401, "a token that is valid here is needed", {"WWW-Authenticate": "Bearer"})
    request.state.caller = found
    return found


def allow(*roles: str) -> Callable[[Caller], Awaitable[Caller]]:
    """A dependency: the caller, if its role is one of these."""

    async def check(who: Annotated[Caller, Depends(caller)]) -> Caller:
        if who.role not in roles:
            raise HTTPException(403, f"this is for {' and '.join(roles)}, not for the role {who.role}")
        return who

    return check


Asker = Annotated[Caller, Depends(allow(OPERATOR, OWNER))]
Operator = Annotated[Caller, Depends(allow(OPERATOR))]
Predictor = Annotated[Caller, Depends(allow(OPERATOR, CONSUMER))]
Looker = Annotated[Caller, Depends(allow(OPERATOR, AUDITOR))]
Reader = Annotated[Caller, Depends(allow(OPERATOR, AUDITOR, OWNER))]
