"""Erase: from a request to the removal of all bytes that it concerns.

plan        ForgetRequest and ForgetPlan: which samples a request means, what would be rebuilt, what it costs
execute     carries out a plan in steps that can be repeated: accept, withdraw, erase, rebuild, close
recovery    the write lock, and finishing what an interrupted process left
twins       other samples with the same content
"""
